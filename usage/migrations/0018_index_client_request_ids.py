"""An index of what clients call their requests."""

from typing import Any

from django.db import migrations, models
from django.db.models import Q

from usage.partitions import index_partitions

NAME = "usage_record_client_request"


def build(apps: Any, editor: Any) -> None:
    index_partitions(editor.connection, NAME, "(client_request_id, id) WHERE NOT (client_request_id = '')", "client")


def drop(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}")


class Migration(migrations.Migration):
    # Without a transaction, so that writers go on meanwhile.
    atomic = False

    dependencies = [
        ("usage", "0017_client_request_ids"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(build, drop)],
            state_operations=[
                migrations.AddIndex(
                    "usagerecord",
                    models.Index(fields=["client_request_id", "id"], name=NAME, condition=~Q(client_request_id="")),
                )
            ],
        )
    ]
