"""Month partitions of the usage records: made ahead, dropped whole.

A record's id carries its time, so a month is a range of ids. What no month takes lies in the default partition,
and moves out of it when its month is made. Each partition holds a unique index on (request_id, attempt): the
attempts of one request lie minutes apart, so only at a month's turn does their uniqueness rest on the ids alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AddIndex
from django.db.migrations.state import ProjectState

from usage.ids import first_id_at

TABLE = "usage_usagerecord"
DEFAULT = f"{TABLE}_default"
MONTHS_AHEAD = 2
#: Building an index beside writers waits for running transactions, and nobody waits behind it.
INDEX_PATIENCE = "60s"
# A settled record replaces its open one on the same page if there is room.
STORAGE = "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05"


def make_partitions(connection: BaseDatabaseWrapper, now: datetime, *, months_ahead: int = MONTHS_AHEAD) -> list[str]:
    """Make the partitions of this month and of `months_ahead` more, and the default one; return the new ones."""
    made: list[str] = []
    with transaction.atomic(using=connection.alias):
        _execute(connection, "SET LOCAL lock_timeout = '2s'")
        # Two processes at once: the second finds what the first made.
        _execute(connection, "SELECT pg_advisory_xact_lock(hashtext(%s))", TABLE)
        known = set(partitions(connection))
        if DEFAULT not in known:
            _create(connection, DEFAULT)
            _execute(connection, f"ALTER TABLE {TABLE} ATTACH PARTITION {DEFAULT} DEFAULT")
            made.append(DEFAULT)
        for start, end in _months(now, months_ahead + 1):
            name = partition_of(start)
            if name not in known:
                _make_month(connection, name, start, end)
                made.append(name)
    return made


def drop_partitions(connection: BaseDatabaseWrapper, before: datetime, *, dry_run: bool = False) -> list[str]:
    """Drop the partitions of the months that ended at or before `before`; return their names."""
    keep_from = partition_of(before)
    old = [name for name in partitions(connection) if name != DEFAULT and name < keep_from]
    if not dry_run:
        for name in old:
            with transaction.atomic(using=connection.alias):
                _execute(connection, "SET LOCAL lock_timeout = '2s'")
                _execute(connection, f"DROP TABLE {name}")
    return old


class AddIndexByPartition(AddIndex):
    """Index the records partition by partition while writers go on: Postgres can't do that for the whole at once.

    For a migration that isn't atomic. A build that was stopped is begun again; partitions made meanwhile bring their own part.
    """

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        connection, name = schema_editor.connection, self.index.name
        whole = str(self.index.create_sql(to_state.apps.get_model(app_label, self.model_name), schema_editor))
        what = whole.partition(f'ON "{TABLE}" ')[2]
        _execute(connection, f"CREATE INDEX IF NOT EXISTS {name} ON ONLY {TABLE} {what}")
        for partition in _unindexed(connection, name):
            part = f"{partition}_{name.removeprefix('usage_record_')}"
            with _patience(connection, INDEX_PATIENCE):
                _execute(connection, f"DROP INDEX CONCURRENTLY IF EXISTS {part}")
                _execute(connection, f"CREATE INDEX CONCURRENTLY {part} ON {partition} {what}")
            # This waits for whoever reads the partition, and all others wait behind it: not for so long.
            _execute(connection, f"ALTER INDEX {name} ATTACH PARTITION {part}")


def partitions(connection: BaseDatabaseWrapper) -> list[str]:
    """Name the partitions there are, oldest month first."""
    query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass ORDER BY 1"
    with connection.cursor() as cursor:
        cursor.execute(query, [TABLE])
        return [name for (name,) in cursor.fetchall()]


def partition_of(moment: datetime) -> str:
    """Name the partition for records of `moment`."""
    return f"{TABLE}_{moment.astimezone(UTC):%Y_%m}"


@contextmanager
def _patience(connection: BaseDatabaseWrapper, timeout: str) -> Iterator[None]:
    """Wait for locks as long as `timeout` says."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        (before,) = cursor.fetchone()
    _execute(connection, "SELECT set_config('lock_timeout', %s, false)", timeout)
    try:
        yield
    finally:
        _execute(connection, "SELECT set_config('lock_timeout', %s, false)", before)


def _unindexed(connection: BaseDatabaseWrapper, index: str) -> list[str]:
    query = """
        SELECT inhrelid::regclass::text FROM pg_inherits AS child WHERE inhparent = %s::regclass AND NOT EXISTS (
            SELECT FROM pg_index AS own JOIN pg_inherits AS part ON part.inhrelid = own.indexrelid
            WHERE own.indrelid = child.inhrelid AND part.inhparent = %s::regclass
        ) ORDER BY 1"""
    with connection.cursor() as cursor:
        cursor.execute(query, [TABLE, index])
        return [name for (name,) in cursor.fetchall()]


def _make_month(connection: BaseDatabaseWrapper, name: str, start: datetime, end: datetime) -> None:
    low, high = first_id_at(start), first_id_at(end)
    _create(connection, name)
    _execute(
        connection,
        f"WITH moved AS (DELETE FROM {DEFAULT} WHERE id >= %s AND id < %s RETURNING *)"  # noqa: S608  (our own names)
        f" INSERT INTO {name} SELECT * FROM moved",
        str(low),
        str(high),
    )
    # Unlike CREATE ... PARTITION OF, attaching lets reads and writes of the other partitions go on.
    _execute(connection, f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES FROM ('{low}') TO ('{high}')")


def _create(connection: BaseDatabaseWrapper, name: str) -> None:
    _execute(connection, f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING ALL) WITH ({STORAGE})")
    _execute(connection, f"CREATE UNIQUE INDEX {name}_once ON {name} (request_id, attempt)")


def _months(now: datetime, count: int) -> Iterator[tuple[datetime, datetime]]:
    months = now.astimezone(UTC).year * 12 + now.astimezone(UTC).month - 1
    for month in range(months, months + count):
        yield _first_of(month), _first_of(month + 1)


def _first_of(month: int) -> datetime:
    return datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)


def _execute(connection: BaseDatabaseWrapper, statement: str, *arguments: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments or None)
