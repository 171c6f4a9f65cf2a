"""An index of the records that something was noted on."""

from typing import Any

from django.db import migrations, models
from django.db.models import Q

from usage.partitions import index_partitions

NAME = "usage_record_noted"
COLUMNS = "(id) INCLUDE (started_at, state, upstream_id, upstream_model, team_id, user_id, notes)"
NOTED = "WHERE NOT (notes = '{}')"


def build(apps: Any, editor: Any) -> None:
    index_partitions(editor.connection, NAME, f"{COLUMNS} {NOTED}", "noted")


def drop(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}")


class Migration(migrations.Migration):
    # Without a transaction, so that writers go on meanwhile.
    atomic = False

    dependencies = [
        ("usage", "0015_price_hours_and_long_requests"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(build, drop)],
            state_operations=[
                migrations.AddIndex(
                    "usagerecord",
                    models.Index(
                        fields=["id"],
                        include=["started_at", "state", "upstream_id", "upstream_model", "team_id", "user_id", "notes"],
                        name=NAME,
                        condition=~Q(notes=[]),
                    ),
                )
            ],
        )
    ]
