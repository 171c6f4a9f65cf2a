"""An index of what clients call their requests."""

from django.db import migrations, models
from django.db.models import Q

from usage.partitions import AddIndexByPartition


class Migration(migrations.Migration):
    # Without a transaction, so that writers go on meanwhile.
    atomic = False

    dependencies = [
        ("usage", "0017_client_request_ids"),
    ]

    operations = [
        AddIndexByPartition(
            "usagerecord",
            models.Index(
                fields=["client_request_id", "id"],
                name="usage_record_client_request",
                condition=~Q(client_request_id=""),
            ),
        )
    ]
