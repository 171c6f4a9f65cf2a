from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from usage.ids import first_id_at
from usage.models import UsageRecord
from usage.partitions import DEFAULT, AddIndexByPartition, drop_partitions, make_partitions, partition_of, partitions

pytestmark = pytest.mark.django_db


def a_record_of(moment: datetime, request_id: str = "req_1", *, attempt: int = 1) -> UsageRecord:
    identity = first_id_at(moment)
    record = UsageRecord(id=type(identity)(int=identity.int | 7 << 76 | attempt), request_id=request_id)
    record.attempt, record.started_at = attempt, moment
    record.save(force_insert=True)
    return record


def where(record: UsageRecord) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM usage_usagerecord WHERE id = %s", [record.pk])
        return str(cursor.fetchone()[0])


def migrated_at() -> datetime:
    """Give the time of the migration: a month may have begun since."""
    return MigrationRecorder.Migration.objects.filter(app="usage").earliest("applied").applied


def test_the_migration_makes_this_month_and_two_more() -> None:
    now = migrated_at()

    assert partition_of(now) in partitions(connection)
    # Other tests may have made months that are over.
    assert len([name for name in partitions(connection) if name >= partition_of(now)]) == 4
    assert where(a_record_of(now)) == partition_of(now)


def test_making_partitions_twice_makes_none() -> None:
    assert make_partitions(connection, migrated_at()) == []


def test_a_record_of_an_unmade_month_waits_in_the_default_partition_and_moves() -> None:
    record = a_record_of(datetime(2031, 12, 31, 23, 59, 59, tzinfo=UTC))
    later = a_record_of(datetime(2032, 1, 1, tzinfo=UTC), "req_2")
    assert where(record) == where(later) == DEFAULT

    made = make_partitions(connection, datetime(2031, 12, 5, tzinfo=UTC), months_ahead=0)

    assert made == ["usage_usagerecord_2031_12"]
    assert where(record) == "usage_usagerecord_2031_12"
    assert where(later) == DEFAULT


def test_an_attempt_of_a_request_exists_once() -> None:
    now = timezone.now()
    a_record_of(now, attempt=1)
    a_record_of(now, attempt=2)

    with pytest.raises(IntegrityError), transaction.atomic():
        UsageRecord.objects.create(request_id="req_1", attempt=2)


def test_dropping_takes_whole_months_that_are_over() -> None:
    make_partitions(connection, datetime(2020, 1, 5, tzinfo=UTC), months_ahead=1)
    record = a_record_of(datetime(2020, 2, 10, tzinfo=UTC))

    assert drop_partitions(connection, datetime(2020, 2, 20, tzinfo=UTC), dry_run=True) == ["usage_usagerecord_2020_01"]
    assert drop_partitions(connection, datetime(2020, 2, 20, tzinfo=UTC)) == ["usage_usagerecord_2020_01"]

    assert UsageRecord.objects.filter(pk=record.pk).exists()


def test_the_command_says_what_it_made(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("make_partitions", months=4)

    assert capsys.readouterr().out.startswith("made ")


def build(name: str) -> None:
    """Run the migration's operation that makes this index."""
    loader = MigrationLoader(connection)
    [(key, operation)] = [
        (key, operation)
        for key, migration in loader.disk_migrations.items()
        for operation in migration.operations
        if isinstance(operation, AddIndexByPartition) and operation.index.name == name
    ]
    state = loader.project_state(key)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("usage", editor, state, state)


def definitions(name: str) -> list[str]:
    """Give the valid indexes that belong to this one, and itself, without their names."""
    query = """
        SELECT replace(pg_get_indexdef(indexrelid), 'ON ONLY', 'ON') FROM pg_index WHERE indisvalid AND indexrelid IN (
            SELECT %s::regclass UNION SELECT inhrelid FROM pg_inherits WHERE inhparent = %s::regclass)"""
    with connection.cursor() as cursor:
        cursor.execute(query, [name, name])
        return [text.partition(" USING ")[2] for (text,) in cursor.fetchall()]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["usage_record_noted", "usage_record_client_request", "usage_record_upstream"])
def test_an_index_is_built_on_where_it_was_interrupted(name: str) -> None:
    whole = definitions(name)
    assert len(whole) == len(partitions(connection)) + 1
    assert len(set(whole)) == 1
    suffix = name.removeprefix("usage_record_")
    done, begun, *_ = partitions(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {name}")
        cursor.execute(f"CREATE INDEX {name} ON ONLY usage_usagerecord USING {whole[0]}")
        cursor.execute(f"CREATE INDEX {done}_{suffix} ON {done} USING {whole[0]}")
        cursor.execute(f"ALTER INDEX {name} ATTACH PARTITION {done}_{suffix}")
        cursor.execute(f"CREATE INDEX {begun}_{suffix} ON {begun} (id)")

    for _ in range(2):
        build(name)

    assert definitions(name) == whole


@pytest.mark.django_db(transaction=True)
def test_an_index_is_attached_without_the_patience_of_its_build() -> None:
    waits = {}

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        if "CREATE INDEX CONCURRENTLY" in sql or "ATTACH" in sql:
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('lock_timeout')")
                waits["ATTACH" if "ATTACH" in sql else "CREATE"] = cursor.fetchone()[0]
        return execute(sql, *rest)

    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX usage_record_noted")
        cursor.execute("SET lock_timeout = '3s'")
        try:
            with connection.execute_wrapper(note):
                build("usage_record_noted")
        finally:
            cursor.execute("RESET lock_timeout")

    assert waits == {"CREATE": "1min", "ATTACH": "3s"}
