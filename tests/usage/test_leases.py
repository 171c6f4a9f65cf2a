from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.usage.conftest import a_record
from tests.usage.test_records import an_end, settled
from usage.connection import LedgerConnection
from usage.leases import LONE_LOOKS, LOOKS, Watch, beat_and_look, close_as_lost, leave
from usage.records import RecordWriter

Query = Callable[..., list[dict[str, Any]]]
STATES = "SELECT state, count(*) FROM usage_usagerecord GROUP BY state ORDER BY state"
HOURS = "SELECT state, sum(attempts)::int AS count FROM usage_usagehour GROUP BY state HAVING sum(attempts) > 0"


def test_a_beat_that_stands_still_is_death() -> None:
    watch = Watch()

    looks = [watch.look({"own": 1, "dead": 7, "alive": beat}, own="own") for beat in range(LOOKS + 1)]

    assert looks == [[]] * (LOOKS - 1) + [[("dead", 7)]] * 2


def test_a_beat_that_moves_once_in_a_while_is_life() -> None:
    watch = Watch()

    assert not any(watch.look({"slow": look // (LOOKS - 1)}, own="own") for look in range(50))


def test_a_worker_is_alone_when_it_saw_nobody_else_for_a_while() -> None:
    watch = Watch()
    seen = [{"own": 1}] * LONE_LOOKS + [{"own": 1, "other": 5}] * (LOOKS + LONE_LOOKS - 1)

    known = []
    for beats in seen:
        watch.look(beats, own="own")
        known.append(watch.is_alone)

    # The other's beat stands still: it is dead at the last look but those that make a worker sure.
    assert known == [False] * (LONE_LOOKS - 1) + [True] + [False] * (LOOKS + LONE_LOOKS - 2) + [True]


async def test_open_records_of_a_dead_worker_are_closed_as_lost_once(
    writer: RecordWriter, connection: LedgerConnection, dsn: str, tmp_path: Path, query: Query
) -> None:
    dead = RecordWriter(dsn, tmp_path / "spool", "dead")
    await dead.start()
    await beat_and_look(connection, "dead", Watch())
    for _ in range(5):
        await dead.open(a_record())
    finished = a_record()
    await dead.open(finished)
    dead.settle(an_end(finished))
    await dead.close()
    await writer.open(a_record())

    watch = Watch()
    found = [await beat_and_look(connection, writer.worker_id, watch) for _ in range(LOOKS)]
    assert found == [[]] * (LOOKS - 1) + [[("dead", 1)]]
    assert [await close_as_lost(connection, "dead", 1) for _ in range(2)] == [5, 0]

    assert query(STATES) == [
        {"state": "lost", "count": 5},
        {"state": "ok", "count": 1},
        {"state": "open", "count": 1},
    ]
    assert query("SELECT worker FROM usage_workerlease") == [{"worker": "worker-1"}]


async def test_a_worker_that_beats_again_loses_nothing(
    writer: RecordWriter, connection: LedgerConnection, query: Query
) -> None:
    await beat_and_look(connection, writer.worker_id, Watch())
    await writer.open(a_record())
    await beat_and_look(connection, writer.worker_id, Watch())

    assert await close_as_lost(connection, writer.worker_id, 1) == 0
    assert query(STATES) == [{"state": "open", "count": 1}]


async def test_open_records_without_any_lease_are_found_too(
    writer: RecordWriter, connection: LedgerConnection, query: Query
) -> None:
    await writer.open(a_record())
    watch = Watch()
    found = [await beat_and_look(connection, "other", watch) for _ in range(LOOKS)][-1]

    assert found == [("worker-1", -1)]
    assert await close_as_lost(connection, *found[0]) == 1


async def test_the_end_of_a_lost_record_is_believed_when_it_comes_after_all(
    writer: RecordWriter, connection: LedgerConnection, query: Query
) -> None:
    record, other = a_record(), a_record()
    await writer.open(record)
    await writer.open(other)
    await close_as_lost(connection, writer.worker_id, -1)
    assert query(STATES) == query(HOURS) == [{"state": "lost", "count": 2}]

    writer.settle(an_end(record))
    await settled(writer)

    assert query(STATES) == [{"state": "lost", "count": 1}, {"state": "ok", "count": 1}]
    assert sorted(row["state"] for row in query(HOURS)) == ["lost", "ok"]
    assert query("SELECT sum(output_tokens)::int AS o, sum(attempts)::int AS a FROM usage_usageday") == [
        {"o": 20, "a": 2}
    ]


async def test_leaving_takes_the_lease_away(connection: LedgerConnection, query: Query) -> None:
    await beat_and_look(connection, "one", Watch())

    await leave(connection, "one")

    assert query("SELECT * FROM usage_workerlease") == []
