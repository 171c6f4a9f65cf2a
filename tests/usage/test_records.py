import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.usage.conftest import a_record
from tests.usage.waiting import eventually
from usage.records import LedgerUnavailable, OpenRecord, RecordWriter, Settlement
from usage.states import Source, State

Query = Callable[..., list[dict[str, Any]]]


def an_end(record: OpenRecord, **changes: Any) -> Settlement:
    facts: dict[str, Any] = {
        "state": State.OK,
        "source": Source.UPSTREAM,
        "input_tokens": 100,
        "cache_read_tokens": 40,
        "output_tokens": 20,
        "thinking_tokens": 5,
        "ttft_ms": 250,
        "duration_ms": 900,
        "http_status": 200,
        "stop_reason": "end_turn",
    }
    return Settlement(id=record.id, **facts | changes)


async def settled(writer: RecordWriter) -> None:
    """Wait until nothing is queued."""
    await eventually(lambda: not writer.backlog)


async def test_an_open_record_is_committed_when_open_returns(writer: RecordWriter, query: Query) -> None:
    record = a_record()

    await writer.open(record)

    (row,) = query("SELECT * FROM usage_usagerecord")
    assert (row["id"], row["state"], row["user_name"], row["worker"]) == (record.id, "open", "alice", "worker-1")
    assert row["settled_at"] is None


async def test_settling_stores_the_end_and_adds_it_to_the_hour(writer: RecordWriter, query: Query) -> None:
    first, second = a_record(), a_record()
    for record in (first, second):
        await writer.open(record)
        writer.settle(an_end(record, notes=("continued",), queued_ms=30))
    await settled(writer)

    rows = query("SELECT * FROM usage_usagerecord")
    told = ("state", "source", "output_tokens", "queued_ms", "ttft_ms")
    assert {tuple(row[name] for name in told) for row in rows} == {("ok", "upstream", 20, 30, 250)}
    assert rows[0]["notes"] == ["continued"]
    assert rows[0]["settled_at"] >= rows[0]["started_at"]
    (hour,) = query("SELECT * FROM usage_usagehour")
    assert (hour["requests"], hour["attempts"], hour["streams"], hour["estimated"]) == (2, 2, 2, 0)
    assert (hour["input_tokens"], hour["cache_read_tokens"], hour["output_tokens"]) == (200, 80, 40)
    assert sum(hour["ttft_histogram"]) == sum(hour["duration_histogram"]) == 2


async def test_of_two_ends_the_first_counts(writer: RecordWriter, query: Query) -> None:
    record = a_record()
    await writer.open(record)
    writer.settle(an_end(record))
    writer.settle(an_end(record, state=State.CLIENT_GONE, output_tokens=1))
    await settled(writer)
    writer.settle(an_end(record, state=State.TIMEOUT, output_tokens=7))
    await settled(writer)

    assert query("SELECT state, output_tokens FROM usage_usagerecord") == [{"state": "ok", "output_tokens": 20}]
    assert query("SELECT state, attempts FROM usage_usagehour") == [{"state": "ok", "attempts": 1}]


async def test_two_finalisers_race_and_one_wins_each_time(
    writer: RecordWriter, dsn: str, tmp_path: Path, query: Query
) -> None:
    rival = RecordWriter(dsn, tmp_path / "spool", "worker-2")
    await rival.start()
    records = [a_record() for _ in range(1000)]
    await asyncio.gather(*(writer.open(record) for record in records))

    for place, record in enumerate(records):
        ends = (an_end(record, output_tokens=7), an_end(record, state=State.CLIENT_GONE, output_tokens=11))
        for one, end in zip((writer, rival) if place % 2 else (rival, writer), ends, strict=True):
            one.settle(end)
        if place % 50 == 0:
            await asyncio.sleep(0)
    await rival.close()
    await settled(writer)

    assert query("SELECT count(*) FROM usage_usagerecord WHERE state = 'open'") == [{"count": 0}]
    by_record = query("SELECT state, count(*), sum(output_tokens) FROM usage_usagerecord GROUP BY 1 ORDER BY 1")
    by_hour = query(
        "SELECT state, sum(attempts) AS count, sum(output_tokens) FROM usage_usagehour GROUP BY 1 ORDER BY 1"
    )
    assert by_record == by_hour
    assert sum(row["count"] for row in by_hour) == 1000


async def test_what_is_queued_travels_as_one_batch(writer: RecordWriter, query: Query) -> None:
    await asyncio.gather(*(writer.open(a_record()) for _ in range(200)))

    transactions = query("SELECT count(DISTINCT xmin::text) FROM usage_usagerecord")
    assert transactions[0]["count"] <= 5


async def test_one_poison_record_does_not_take_its_batch_along(writer: RecordWriter, query: Query) -> None:
    records = [a_record() for _ in range(100)]
    poison = a_record(attempt=0)  # breaks a constraint of the table

    results = await asyncio.gather(*(writer.open(r) for r in [*records, poison]), return_exceptions=True)

    assert [type(result) for result in results] == [type(None)] * 100 + [LedgerUnavailable]
    for record in records:
        writer.settle(an_end(record))
    writer.settle(an_end(poison))
    await settled(writer)
    assert query("SELECT state, count(*) FROM usage_usagerecord GROUP BY state") == [{"state": "ok", "count": 100}]


HOSTILE = ["a\x00b", "\ud800lone", "x" * 1_000_000, "🦜" * 1000, "\u202eright to left", "';--", "\\x00", "", "\x1b[31m"]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_string_can_keep_a_record_out(text: str, writer: RecordWriter, query: Query) -> None:
    names = ("user_name", "team_name", "alias", "upstream_model", "client_name", "client_version", "session_id")
    record = a_record(**dict.fromkeys(names, text))

    await writer.open(record)
    writer.settle(an_end(record, error_type=text, stop_reason=text, notes=(text,) * 40))
    await settled(writer)

    assert query("SELECT state FROM usage_usagerecord") == [{"state": "ok"}]
    assert query("SELECT attempts FROM usage_usagehour") == [{"attempts": 1}]


async def test_ids_and_numbers_beyond_their_columns_are_cut(writer: RecordWriter, query: Query) -> None:
    record = a_record(user_id=2**70, team_id=-1)

    await writer.open(record)
    writer.settle(an_end(record, ttft_ms=2**40, duration_ms=-5, http_status=10**6))
    await settled(writer)

    (row,) = query("SELECT user_id, team_id, ttft_ms, duration_ms, state FROM usage_usagerecord")
    assert row == {"user_id": None, "team_id": None, "ttft_ms": 2**31 - 1, "duration_ms": 0, "state": "ok"}


async def test_a_client_that_leaves_while_its_record_opens_leaves_a_refused_one(
    writer: RecordWriter, query: Query
) -> None:
    tasks = [asyncio.create_task(writer.open(a_record())) for _ in range(300)]
    for place, task in enumerate(tasks):
        if place % 3 == 0:
            await asyncio.sleep(0.001)
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    # When the second of these is in, the batch of the first is over, and with it all that was asked before.
    results += [await writer.open(a_record()) for _ in range(2)]
    await settled(writer)

    opened = sum(result is None for result in results)
    states = {row["state"]: row["count"] for row in query("SELECT state, count(*) FROM usage_usagerecord GROUP BY 1")}
    assert states.get("open", 0) == opened
    assert set(states) <= {"open", "refused"}


async def test_closing_writes_what_is_queued(dsn: str, tmp_path: Path, query: Query) -> None:
    writer = RecordWriter(dsn, tmp_path / "spool", "worker-1")
    await writer.start()
    records = [a_record() for _ in range(50)]
    await asyncio.gather(*(writer.open(record) for record in records))
    for record in records:
        writer.settle(an_end(record))

    await writer.close()

    assert query("SELECT state, count(*) FROM usage_usagerecord GROUP BY state") == [{"state": "ok", "count": 50}]
    assert not list((tmp_path / "spool").glob("*"))


async def test_a_closing_ledger_opens_nothing(writer: RecordWriter) -> None:
    await writer.close()

    with pytest.raises(LedgerUnavailable):
        await writer.open(a_record())
