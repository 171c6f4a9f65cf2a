"""An index of the records that something was noted on."""

from django.db import migrations, models
from django.db.models import Q

from usage.partitions import AddIndexByPartition


class Migration(migrations.Migration):
    # Without a transaction, so that writers go on meanwhile.
    atomic = False

    dependencies = [
        ("usage", "0015_price_hours_and_long_requests"),
    ]

    operations = [
        AddIndexByPartition(
            "usagerecord",
            models.Index(
                fields=["id"],
                include=["started_at", "state", "upstream_id", "upstream_model", "team_id", "user_id", "notes"],
                name="usage_record_noted",
                condition=~Q(notes=[]),
            ),
        )
    ]
