"""An index of the records that something was noted on."""

from typing import Any

from django.db import migrations, models
from django.db.models import Q

NAME = "usage_record_noted"
TABLE = "usage_usagerecord"
COLUMNS = "(id) INCLUDE (started_at, state, upstream_id, upstream_model, team_id, user_id, notes)"
NOTED = "WHERE NOT (notes = '{}')"
#: The partitions whose part is missing.
LEFT = """
SELECT inhrelid::regclass::text FROM pg_inherits AS child WHERE inhparent = 'usage_usagerecord'::regclass
    AND NOT EXISTS (
        SELECT FROM pg_index AS own JOIN pg_inherits AS part ON part.inhrelid = own.indexrelid
        WHERE own.indrelid = child.inhrelid AND part.inhparent = 'usage_record_noted'::regclass
    )"""


def build(apps: Any, editor: Any) -> None:
    """Build it part by part, while writers go on: Postgres can't do that for a partitioned table at once.

    A build that was interrupted is begun again; partitions that are made meanwhile bring their own part.
    """
    with editor.connection.cursor() as cursor:
        cursor.execute(f"CREATE INDEX IF NOT EXISTS {NAME} ON ONLY {TABLE} {COLUMNS} {NOTED}")
        cursor.execute(LEFT)
        for (partition,) in cursor.fetchall():
            part = f"{partition}_noted"
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {part}")
            cursor.execute(f"CREATE INDEX CONCURRENTLY {part} ON {partition} {COLUMNS} {NOTED}")
            cursor.execute(f"ALTER INDEX {NAME} ATTACH PARTITION {part}")


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
