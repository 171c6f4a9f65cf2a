"""What happens to records when Postgres, the disk or the process goes away."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.usage.conftest import a_record
from tests.usage.gate import Gate, gate
from tests.usage.test_records import an_end, settled
from tests.usage.waiting import eventually, stopped_clock
from usage.records import OPEN_TIMEOUT_S, LedgerUnavailable, OpenRecord, RecordWriter
from usage.rows import settled_row
from usage.spool import Spool

__all__ = ["gate"]

Query = Callable[..., list[dict[str, Any]]]
STATES = "SELECT state, count(*) FROM usage_usagerecord GROUP BY state ORDER BY state"
HOURS = "SELECT state, sum(attempts)::int AS count FROM usage_usagehour GROUP BY state ORDER BY state"


@pytest.fixture
async def gated(gate: Gate, tmp_path: Path) -> AsyncIterator[RecordWriter]:
    writer = RecordWriter(gate.dsn, tmp_path / "spool", "worker-1")
    await writer.start()
    yield writer
    await writer.close()


async def opened(writer: RecordWriter, count: int) -> list[OpenRecord]:
    records = [a_record() for _ in range(count)]
    await asyncio.gather(*(writer.open(record) for record in records))
    return records


def spooled(folder: Path) -> list[bytes]:
    """Give the lines of all spools."""
    return [line for spool in (folder / "spool").glob("*") for line in spool.read_bytes().splitlines()]


async def test_a_stopped_postgres_refuses_new_records_within_a_second(gate: Gate, gated: RecordWriter) -> None:
    await gate.shut()

    with stopped_clock():  # the refusals wait for no timer
        results = await asyncio.gather(*(gated.open(a_record()) for _ in range(100)), return_exceptions=True)

    assert {type(result) for result in results} == {LedgerUnavailable}
    assert not gated.is_ready


async def test_a_writer_that_nobody_asks_finds_postgres_when_it_is_there(gate: Gate, tmp_path: Path) -> None:
    await gate.shut()
    writer = RecordWriter(gate.dsn, tmp_path / "spool", "worker-1")
    await writer.start()
    try:
        assert not writer.is_ready
        await gate.open()

        await eventually(lambda: writer.is_ready)
    finally:
        await writer.close()


async def test_a_hanging_postgres_refuses_new_records_within_a_second(
    gate: Gate, gated: RecordWriter, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("usage.records.OPEN_TIMEOUT_S", OPEN_TIMEOUT_S)
    gate.freeze()

    with stopped_clock() as forward:
        opening = asyncio.create_task(gated.open(a_record()))
        while not gated._connection.was_sent:  # noqa: ASYNC110  (it tells nobody)
            await asyncio.sleep(0)
        forward(0.99)
        with pytest.raises(LedgerUnavailable):
            await opening

    gate.thaw()
    await eventually(lambda: query("SELECT id FROM usage_usagerecord WHERE state <> 'open'"))
    assert query(STATES) == [{"state": "refused", "count": 1}]


async def test_ends_are_spooled_while_postgres_is_away_and_replayed_when_it_is_back(
    gate: Gate, gated: RecordWriter, query: Query, tmp_path: Path
) -> None:
    records = await opened(gated, 50)
    await gate.shut()
    for record in records:
        gated.settle(an_end(record))
    await eventually(lambda: len(spooled(tmp_path)) == 50)

    (spool,) = (tmp_path / "spool").iterdir()
    assert query(STATES) == [{"state": "open", "count": 50}]

    await gate.open()
    await settled(gated)
    assert query(STATES) == query(HOURS) == [{"state": "ok", "count": 50}]
    assert spool.read_bytes() == b""


async def test_ends_wait_in_the_spool_while_the_tables_are_of_another_version(
    writer: RecordWriter, query: Query, tmp_path: Path
) -> None:
    records = await opened(writer, 20)
    query("ALTER TABLE usage_usagehour RENAME COLUMN alias TO of_another_version")
    try:
        for record in records:
            writer.settle(an_end(record))
        await eventually(lambda: len(spooled(tmp_path)) == 20)
    finally:
        query("ALTER TABLE usage_usagehour RENAME COLUMN of_another_version TO alias")

    await settled(writer)
    assert query(STATES) == query(HOURS) == [{"state": "ok", "count": 20}]


async def test_another_process_takes_over_the_spool_of_a_dead_one(
    gate: Gate, dsn: str, query: Query, tmp_path: Path
) -> None:
    first = RecordWriter(gate.dsn, tmp_path / "spool", "worker-1")
    await first.start()
    records = await opened(first, 20)
    await gate.shut()
    for record in records:
        first.settle(an_end(record))
    await first.close()

    second = RecordWriter(dsn, tmp_path / "spool", "worker-2")
    await second.start()
    await settled(second)
    await second.close()

    assert query(STATES) == query(HOURS) == [{"state": "ok", "count": 20}]
    assert list((tmp_path / "spool").iterdir()) == []


async def test_replaying_a_line_twice_counts_once(writer: RecordWriter, dsn: str, query: Query, tmp_path: Path) -> None:
    records = await opened(writer, 10)
    for record in records:
        writer.settle(an_end(record))
    await settled(writer)
    copy = Spool(tmp_path / "spool", "worker-0")
    for _ in range(2):
        copy.append([settled_row(an_end(record)) for record in records])
    copy.close()

    second = RecordWriter(dsn, tmp_path / "spool", "worker-2")
    await second.start()
    await settled(second)
    await second.close()

    assert query(STATES) == query(HOURS) == [{"state": "ok", "count": 10}]


async def test_the_spool_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    living, other = Spool(tmp_path, "a"), Spool(tmp_path, "b")
    living.append([{"id": "1"}])

    assert other.adopt() == []
    assert living.rows() == [{"id": "1"}]
    living.close()
    assert other.adopt() == [{"id": "1"}]
    other.close()


async def test_a_line_the_dead_process_did_not_finish_is_no_line(tmp_path: Path) -> None:
    (tmp_path / "dead.spool").write_bytes(b'{"id":"1"}\n{"id":"2","sta')
    spool = Spool(tmp_path, "b")

    assert spool.adopt() == [{"id": "1"}]
    spool.close()


async def test_a_connection_that_postgres_cuts_is_replaced_without_a_refusal(
    writer: RecordWriter, query: Query
) -> None:
    records = await opened(writer, 5)
    query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bridge-ledger'")

    await writer.open(a_record())
    for record in records:
        writer.settle(an_end(record))
    await settled(writer)

    assert query(STATES) == [{"state": "ok", "count": 5}, {"state": "open", "count": 1}]


async def test_ends_survive_the_writer_being_cancelled(gate: Gate, dsn: str, query: Query, tmp_path: Path) -> None:
    first = RecordWriter(gate.dsn, tmp_path / "spool", "worker-1")
    await first.start()
    records = await opened(first, 20)
    gate.freeze()
    for record in records[:10]:
        first.settle(an_end(record))
    await asyncio.sleep(0.05)
    assert first._task is not None
    first._task.cancel()
    asyncio.get_running_loop().call_later(0.1, gate.thaw)
    await asyncio.wait([first._task])
    for record in records[10:]:
        first.settle(an_end(record))
    await first._connection.close()
    first._spool.close()

    second = RecordWriter(dsn, tmp_path / "spool", "worker-2")
    await second.start()
    await settled(second)
    await second.close()

    assert query(STATES) == query(HOURS) == [{"state": "ok", "count": 20}]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
async def test_a_full_spool_keeps_ends_in_memory_and_refuses_new_records(
    gate: Gate, gated: RecordWriter, query: Query
) -> None:
    records = await opened(gated, 5)
    await gate.shut()
    gated._spool._file = os.open("/dev/full", os.O_RDWR)
    for record in records:
        gated.settle(an_end(record))
    await eventually(lambda: len(gated._unspooled) == 5)

    assert not gated.is_ready
    with pytest.raises(LedgerUnavailable):
        await gated.open(a_record())

    os.close(gated._spool._file)
    gated._spool._file = None
    await gate.open()
    await settled(gated)
    assert query(STATES) == [{"state": "ok", "count": 5}]
