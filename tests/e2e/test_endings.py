"""What becomes of running calls when the gateway, a worker of it, or its database goes away."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Semaphore

import httpx
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.e2e.client import TIMEOUT_S, Seen, ask, opened, question, read_to_the_end
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import PATIENCE_S, MakeGateway, RunningGateway, database_conninfo
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream

STREAMS = 8
#: Six looks at 4 s, and some to spare.
LOST_WITHIN_S = 45


@contextmanager
def streaming(gateway: RunningGateway, upstream: ScriptedUpstream, model: str) -> Iterator[list[Future[Seen]]]:
    """Have `STREAMS` streams running, each of which has said something, to its client too."""
    begun = Semaphore(0)

    def stream() -> Seen:
        with opened(gateway, question(model, stream=True)) as answer:
            begun.release()
            return read_to_the_end(answer)

    with ThreadPoolExecutor(STREAMS) as pool:
        running = [pool.submit(stream) for _ in range(STREAMS)]
        assert all(begun.acquire(timeout=TIMEOUT_S) for _ in running)
        upstream.wait_for(lambda truth: sum(attempt["sent_tokens"] > 2 for attempt in truth["attempts"]) == STREAMS)
        yield running


def ends_of(seen: list[Seen]) -> dict[str, bool]:
    return {one.request_id: one.ended_well for one in seen}


def test_a_gateway_told_to_stop_finishes_what_it_began(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    stopping = gateway(upstream=upstream, BRIDGE_DRAIN_S="60")

    with streaming(stopping, upstream, "script/ok,frames=100,gap=20ms") as running:
        status = stopping.stop()
        seen = [one.result() for one in running]

    assert status == 0
    assert all(one.ended_well for one in seen), [one.error for one in seen]
    assert_ledger_adds_up(stopping, upstream, ended_well=ends_of(seen))


def test_what_outlasts_the_drain_ends_with_an_error(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    stopping = gateway(upstream=upstream, BRIDGE_DRAIN_S="1")

    with streaming(stopping, upstream, "script/ok,frames=1000,gap=20ms") as running:
        status = stopping.stop()
        seen = [one.result() for one in running]

    assert status == 0
    assert not any(one.is_broken or one.ended_well for one in seen)
    assert {one.error["type"] for one in seen if one.error} == {"overloaded_error"}
    records = assert_ledger_adds_up(stopping, upstream, ended_well=ends_of(seen))
    assert {record["state"] for record in records} == {"truncated"}


@pytest.mark.slow
def test_records_of_a_killed_worker_are_closed_as_lost(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    dying = gateway(workers=2, upstream=upstream, keys=["sk-one", "sk-two"])
    victim = dying.worker_pids()[0]

    with streaming(dying, upstream, "script/ok,frames=150,gap=20ms") as running:
        dying.kill9(victim)
        seen = [one.result() for one in running]

    broken = [one for one in seen if one.is_broken]
    assert all(one.ended_well for one in seen if not one.is_broken)
    records = dying.settled(STREAMS, within_s=LOST_WITHIN_S)
    lost = [record for record in records if record["state"] == "lost"]
    assert {record["request_id"] for record in lost} == {one.request_id for one in broken}
    assert all(f":{victim}" in record["worker"] for record in lost)
    assert_ledger_adds_up(dying, upstream, lost=len(broken))
    dying.wait_ready()
    assert ask(dying, "mock-n3-d0").ended_well


def streams_open(gateway: RunningGateway) -> float:
    text = httpx.get(f"{gateway.base_url}/metrics", trust_env=False, timeout=TIMEOUT_S).text
    [line] = [line for line in text.splitlines() if line.startswith("bridge_streams_open ")]
    return float(line.split()[-1])


@pytest.fixture(scope="module")
def pair(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """Two workers, who may be killed and replaced."""
    return make_gateway(workers=2, upstream=upstream_process, keys=["sk-one", "sk-two"])


def test_what_a_killed_worker_held_is_counted_no_longer(pair: RunningGateway, upstream: ScriptedUpstream) -> None:
    with streaming(pair, upstream, "script/ok,frames=300,gap=20ms") as running:
        with upstream.standing_still():  # so that no stream ends by itself meanwhile
            until(lambda: streams_open(pair) == STREAMS, within_s=60)
            [row, *_] = pair.sql(
                "SELECT worker, count(*) AS n FROM usage_usagerecord WHERE state = 'open' GROUP BY worker"
            )
            pair.kill9(int(row["worker"].split(":")[1].split("-")[0]))
            left = until(lambda: streams_open(pair) == STREAMS - row["n"], within_s=60)
        seen = [one.result() for one in running]

    assert left
    assert sum(one.is_broken for one in seen) == row["n"]
    assert until(lambda: streams_open(pair) == 0, within_s=60)


def test_workers_are_replaced_while_they_are_called(pair: RunningGateway, upstream: ScriptedUpstream) -> None:
    assert pair.running is not None
    pair.wait_until_known()  # by two: one may have been killed before
    old = set(pair.worker_pids())

    with streaming(pair, upstream, "script/ok,frames=100,gap=20ms") as running:
        os.kill(pair.running.pid, signal.SIGHUP)
        short = []
        give_up = time.monotonic() + PATIENCE_S
        while old & set(pair.worker_pids()):
            assert time.monotonic() < give_up, pair.log()[-2000:]
            short.append(ask(pair, "mock-n1-d0"))
        seen = [one.result() for one in running]

    assert len(pair.worker_pids()) == 2, pair.log()[-2000:]
    assert [one.error for one in [*seen, *short] if not one.ended_well] == []
    assert_ledger_adds_up(pair, upstream, ended_well=ends_of([*seen, *short]))


def test_workers_stay_where_the_tables_are_older_than_the_code(pair: RunningGateway) -> None:
    assert pair.running is not None
    pair.wait_until_known()  # by two: one may have been killed before
    workers = pair.worker_pids()
    [last] = pair.sql("SELECT id, name FROM django_migrations WHERE app = 'usage' ORDER BY name DESC LIMIT 1")
    pair.execute("UPDATE django_migrations SET name = 'of another version' WHERE id = %s", [last["id"]])

    try:
        os.kill(pair.running.pid, signal.SIGHUP)
        until(lambda: "migrate first" in pair.log(), within_s=PATIENCE_S)
    finally:
        pair.execute("UPDATE django_migrations SET name = %s WHERE id = %s", [last["name"], last["id"]])

    assert pair.worker_pids() == workers


@pytest.mark.slow
def test_streams_outlive_the_database_and_are_recorded_once_it_is_back(
    gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    cut_off = gateway(upstream=upstream)

    with streaming(cut_off, upstream, "script/ok,frames=100,gap=20ms") as running, no_database(cut_off):
        seen = [one.result() for one in running]
        reached = len(upstream.attempts())
        began = time.monotonic()
        refused = ask(cut_off, "mock-n3-d0")
        waited_s = time.monotonic() - began
        assert len(upstream.attempts()) == reached

    assert all(one.ended_well for one in seen), [one.error for one in seen]
    assert (refused.status, waited_s < 2) == (503, True)
    assert refused.headers["retry-after"]
    cut_off.settled(STREAMS, within_s=30)
    assert_ledger_adds_up(cut_off, upstream, ended_well=ends_of(seen))
    cut_off.wait_ready()
    assert ask(cut_off, "mock-n3-d0").ended_well


def test_a_gateway_that_nobody_calls_says_when_it_has_no_database(
    gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    idle = gateway(workers=2, upstream=upstream)
    time.sleep(3)  # whatever the start had to write is written

    with no_database(idle):
        until(lambda: not any(idle.is_ready() for _ in range(8)), within_s=60)
        alive = httpx.get(f"{idle.base_url}/livez", trust_env=False, timeout=TIMEOUT_S)
    back = until(lambda: all(idle.is_ready() for _ in range(8)), within_s=60)

    assert alive.status_code == 200
    assert back
    assert upstream.attempts() == []


@contextmanager
def no_database(gateway: RunningGateway) -> Iterator[None]:
    """Turn everybody out of the gateway's database and let nobody in."""
    allow = SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
    name = Identifier(gateway.database)

    with psycopg.connect(database_conninfo("postgres"), autocommit=True) as connection:
        connection.execute(allow.format(name, SQL("false")))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [gateway.database]
        )
        try:
            ours = "SELECT FROM pg_stat_activity WHERE datname = %s"
            until(lambda: not connection.execute(ours, [gateway.database]).fetchall(), within_s=60)
            yield
        finally:
            connection.execute(allow.format(name, SQL("true")))
