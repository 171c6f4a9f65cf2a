"""An index of upstreams, for those that hardly serve."""

from django.db import migrations, models

from usage.partitions import AddIndexByPartition


class Migration(migrations.Migration):
    # Without a transaction, so that writers go on meanwhile.
    atomic = False

    dependencies = [
        ("usage", "0018_index_client_request_ids"),
    ]

    operations = [
        AddIndexByPartition(
            "usagerecord",
            models.Index(
                fields=["upstream_id", "id"],
                name="usage_record_upstream",
            ),
        )
    ]
