from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from usage.ids import first_id_at
from usage.models import UsageRecord
from usage.partitions import DEFAULT, drop_partitions, make_partitions, partition_of, partitions

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


def test_the_migration_makes_this_month_and_two_more() -> None:
    now = timezone.now()

    assert partition_of(now) in partitions(connection)
    # Other tests may have made months that are over.
    assert len([name for name in partitions(connection) if name >= partition_of(now)]) == 4
    assert where(a_record_of(now)) == partition_of(now)


def test_making_partitions_twice_makes_none() -> None:
    assert make_partitions(connection, timezone.now()) == []


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


@pytest.mark.django_db(transaction=True)
def test_the_index_of_notes_is_built_on_where_it_was_interrupted() -> None:
    migration, part = import_module("usage.migrations.0016_index_notes"), partition_of(timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX usage_record_noted")
        cursor.execute(
            f"CREATE INDEX usage_record_noted ON ONLY usage_usagerecord {migration.COLUMNS} {migration.NOTED}"
        )
        cursor.execute(f"CREATE INDEX {part}_noted ON {part} (id)")

    for _ in range(2):
        migration.build(None, SimpleNamespace(connection=connection))

    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'usage_record_noted'::regclass")
        assert cursor.fetchall() == [(True,)]
        cursor.execute("SELECT pg_get_indexdef(%s::regclass)", [f"{part}_noted"])
        assert "INCLUDE (started_at, state" in cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_an_index_is_attached_without_the_patience_of_its_build() -> None:
    migration, waits = import_module("usage.migrations.0016_index_notes"), {}

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
                migration.build(None, SimpleNamespace(connection=connection))
        finally:
            cursor.execute("RESET lock_timeout")

    assert waits == {"CREATE": "1min", "ATTACH": "3s"}
