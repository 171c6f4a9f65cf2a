"""Storms, kills and outages under load, through whole gateways: the sum holds after each (`tests.the_sum`)."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from bridgeproject.database import EmbeddedPostgres, postgres_dir
from tests import processes
from tests.e2e.client import ask
from tests.e2e.crowd import Sight, Visit, crowd
from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.rest import Rest, assert_comes_to_rest
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream

pytestmark = pytest.mark.slow

STREAMS = 50
#: Six looks at 4 s, and some to spare.
LOST_WITHIN_S = 45
KEYS = [f"sk-{number}" for number in range(8)]
#: Streams and whole answers, short and long, with and without usage; some break, some are refused.
MIX = [
    Visit(model="mock-n20-d0"),
    Visit(model="script/ok,frames=40,gap=2ms"),
    Visit(model="mock-n50-d0", stream=False),
    Visit(model="script/think,tools=2,interleaved"),
    Visit(model="script/nousage,frames=30"),
    Visit(model="mock-n10-d5"),
    Visit(model="script/nodone"),
    Visit(model="mock-n5-d0", stream=False),
    Visit(model="script/usage=-5,frames=12"),
    Visit(model="script/flap=1/10,frames=9"),
    Visit(model="script/cached=3,frames=8"),
    Visit(model="script/cut,frame=7"),
    Visit(model="script/ok,frames=100,gap=20ms", leave_after_s=0.4),
]
PRICED = ("mock-n20-d0", "mock-n50-d0", "mock-n10-d5", "mock-n5-d0", "script/cached=3,frames=8")

Prepare = Callable[..., RunningGateway]


def keep_accounts(gateway: RunningGateway) -> None:
    """Give alice a budget in USD and one in tokens, and some of the models a price."""
    for model in PRICED:
        gateway.execute(
            "INSERT INTO usage_price (upstream_model, input_price, output_price, cache_read_price, origin, valid_from)"
            " VALUES (%s, 3000000, 15000000, 300000, 'test', now() - interval '1 day')",
            [model],
        )
    for unit in ("usd", "tokens"):
        gateway.execute(
            'INSERT INTO usage_budget (name, subject, subject_id, period, unit, enabled, "limit", spent, reserved,'
            " warn_percents, warn_emails, warn_webhook, warned_percent)"
            " SELECT %s, 'user', id, 'total', %s, true, 10::bigint ^ 15, 0, 0, '{}', '{}', '', 0"
            " FROM auth_user WHERE username = 'alice'",
            [f"alice in {unit}", unit],
        )
    time.sleep(3)  # workers read budgets every two seconds


@pytest.fixture
def prepared(gateway: MakeGateway, upstream: ScriptedUpstream) -> Prepare:
    def prepare(**options: Any) -> RunningGateway:
        made = gateway(workers=2, upstream=upstream, keys=KEYS, **options)
        keep_accounts(made)
        return made

    return prepare


def ends_of(seen: Sequence[Sight]) -> dict[str, bool]:
    """Say of the calls whose clients stayed whether they ended well."""
    return {one.request_id: one.ended_well for one in seen if one.request_id and not one.has_left}


@contextmanager
def aside(gateway: RunningGateway, visits: Sequence[Visit]) -> Iterator[list[Sight]]:
    """Make the calls all at once in a thread of their own; what they saw is in the list after the block."""
    seen: list[Sight] = []
    thread = threading.Thread(target=lambda: seen.extend(asyncio.run(crowd(gateway, visits, at_once=len(visits)))))
    thread.start()
    try:
        yield seen
    finally:
        thread.join()
    assert len(seen) == len(visits)


def wait_for_streams(upstream: ScriptedUpstream, count: int) -> None:
    """Wait until so many streams have said something."""
    upstream.wait_for(
        lambda truth: sum(attempt["sent_tokens"] > 2 for attempt in truth["attempts"]) >= count, within_s=30
    )


@pytest.mark.timeout(240)
def test_two_thousand_mixed_requests_add_up(prepared: Prepare, upstream: ScriptedUpstream) -> None:
    mixed = prepared()
    visits = list(islice(cycle(MIX), 2000))
    random.Random(5).shuffle(visits)  # noqa: S311  (a test's)
    warmed = asyncio.run(crowd(mixed, visits[:100], at_once=STREAMS))
    time.sleep(2)
    before = Rest.of(mixed)

    seen = warmed + asyncio.run(crowd(mixed, visits[100:], at_once=STREAMS))

    records = assert_ledger_adds_up(
        mixed, upstream, ended_well=ends_of(seen), unreachable=sum(one.has_left for one in seen), within_s=30
    )
    assert len(seen) == 2000
    states = Counter(record["state"] for record in records)
    assert states["ok"] > 1500, states
    assert states["client_gone"] > 100, states
    assert {"partial", "estimated", "upstream"} <= {record["source"] for record in records}
    assert_comes_to_rest(mixed, before)


@pytest.mark.timeout(300)
def test_five_thousand_disconnects_at_random_moments_add_up(prepared: Prepare, upstream: ScriptedUpstream) -> None:
    stormy = prepared()
    dice = random.Random(7)  # noqa: S311  (a test's)
    visits = [
        Visit(
            model="script/wait=40ms,frames=200,gap=20ms",
            leave_after_s=dice.choice((dice.random() * 0.1, dice.random() * 0.8)),
            resets=dice.random() < 0.5,
        )
        for _ in range(5000)
    ]
    asyncio.run(crowd(stormy, visits[:100], at_once=STREAMS))
    time.sleep(2)
    before = Rest.of(stormy)

    seen = asyncio.run(crowd(stormy, visits[100:], at_once=STREAMS // 2))
    left = time.monotonic()
    upstream.wait_for(lambda truth: truth["totals"]["open"] == 0, within_s=2)

    assert time.monotonic() - left < 2
    assert all(one.has_left for one in seen)
    assert_comes_to_rest(stormy, before)
    # A client that left while its call was on its way to the upstream leaves a record that nobody there knows.
    records = assert_ledger_adds_up(stormy, upstream, unreachable=250, within_s=30)
    states = Counter(record["state"] for record in records)
    assert states.keys() <= {"client_gone", "refused"}
    assert states["client_gone"] > 2000, states
    assert ask(stormy, "mock-n3-d0").ended_well


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A Postgres of this test's own, to be stopped."""
    with tempfile.TemporaryDirectory(prefix="bridge-chaos-") as folder:
        own = EmbeddedPostgres(data_dir=Path(folder))
        own.start()
        try:
            yield own
        finally:
            own.stop()


def stop_at_once(server: EmbeddedPostgres) -> None:
    """Stop it as a power cut would, as far as Postgres can tell: it has to recover when it comes back."""
    pid = int((postgres_dir(server.data_dir) / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, signal.SIGQUIT)
    until = time.monotonic() + 10
    while server.is_running():
        assert time.monotonic() < until
        time.sleep(0.1)


def start_again(server: EmbeddedPostgres) -> None:
    """Start it from a process of its own: this one believes that it has never stopped."""
    code = (
        "import sys; from pathlib import Path; from bridgeproject.database import EmbeddedPostgres; "
        "EmbeddedPostgres(data_dir=Path(sys.argv[1])).start()"
    )
    subprocess.run([sys.executable, "-c", code, str(server.data_dir)], cwd=processes.ROOT, check=True, timeout=60)


@pytest.mark.timeout(240)
def test_streams_outlive_thirty_seconds_without_postgres(
    prepared: Prepare, upstream: ScriptedUpstream, server: EmbeddedPostgres
) -> None:
    cut_off = prepared(server=server.data_dir)
    cut_off.hurry(total_timeout_s=120)
    time.sleep(3)  # so long until all workers know
    short, long = "script/ok,frames=100,gap=100ms", "script/ok,frames=250,gap=200ms"
    visits = [Visit(model=short if number % 2 else long) for number in range(STREAMS)]

    with aside(cut_off, visits) as seen:
        wait_for_streams(upstream, STREAMS)
        stop_at_once(server)
        stopped = time.monotonic()
        reached = len(upstream.attempts())
        refused = [asyncio.run(timed(cut_off)) for _ in range(10)]
        assert len(upstream.attempts()) == reached
        time.sleep(max(0.0, stopped + 30 - time.monotonic()))
        start_again(server)
        cut_off.wait_ready()
        fresh = asyncio.run(crowd(cut_off, [Visit(model="mock-n5-d0")] * 20, at_once=10))

    assert {(one.status, took_s < 2) for one, took_s in refused} == {(503, True)}
    assert all(one.ended_well for one in [*seen, *fresh]), Counter(one.error_type for one in seen)
    records = assert_ledger_adds_up(cut_off, upstream, ended_well=ends_of([*seen, *fresh]), within_s=30)
    assert Counter(record["state"] for record in records)["ok"] == STREAMS + len(fresh)
    spools = list((cut_off.data_dir / "spool").glob("*.spool"))
    assert spools
    assert not any(spool.stat().st_size for spool in spools)


async def timed(gateway: RunningGateway) -> tuple[Sight, float]:
    began = time.monotonic()
    [seen] = await crowd(gateway, [Visit(model="mock-n3-d0")], at_once=1)
    return seen, time.monotonic() - began


@pytest.mark.timeout(180)
def test_streams_of_the_other_worker_outlive_a_killed_one(prepared: Prepare, upstream: ScriptedUpstream) -> None:
    dying = prepared()
    victim = dying.worker_pids()[0]

    with aside(dying, [Visit(model="script/ok,frames=150,gap=20ms")] * STREAMS) as seen:
        wait_for_streams(upstream, STREAMS)
        dying.kill9(victim)

    broken = [one for one in seen if not one.ended_well]
    records = assert_ledger_adds_up(
        dying, upstream, lost=len(broken), ended_well=ends_of(seen), within_s=LOST_WITHIN_S
    )  # fmt: skip
    lost = [record for record in records if record["state"] == "lost"]
    assert {record["request_id"] for record in lost} == {one.request_id for one in broken}
    assert all(f":{victim}" in record["worker"] for record in lost)
    dying.wait_ready()
    assert ask(dying, "mock-n3-d0").ended_well


@contextmanager
def deaf_upstream() -> Iterator[str]:
    """Give the address of a server that answers no call for a connection, so that nothing can be sent to it."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filling in (first, second):  # what the kernel would take by itself
            filling.setblocking(False)
            filling.connect_ex(listener.getsockname())
        time.sleep(0.2)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@pytest.mark.timeout(180)
def test_a_worker_killed_between_commit_and_send_leaves_lost_records_and_no_attempt(
    prepared: Prepare, upstream: ScriptedUpstream
) -> None:
    with deaf_upstream() as base_url:
        dying = prepared(
            commands=[
                ["add_upstream", "deaf", base_url, "--key", "sk-deaf-one", "--key", "sk-deaf-two"],
                ["add_route", "deaf", "deaf"],
            ]
        )
        dying.hurry("deaf", connect_timeout_s=8, first_byte_timeout_s=8)
        time.sleep(3)
        victim = dying.worker_pids()[0]
        ask(dying, "mock-n3-d0")  # so that the upstream's truth has begun
        visits = [Visit(model="deaf")] * STREAMS + [Visit(model="script/ok,frames=100,gap=20ms")] * STREAMS

        with aside(dying, visits) as seen:
            until = time.monotonic() + 7
            while committed(dying) < STREAMS and time.monotonic() < until:
                time.sleep(0.05)
            count = committed(dying)
            dying.kill9(victim)

    assert count == STREAMS
    broken = [one for one in seen if one.status in (0, 200) and not one.ended_well]
    # What the other worker couldn't send either, it says so itself.
    records = assert_ledger_adds_up(
        dying, upstream, lost=len(broken), unreachable=4 * STREAMS, ended_well=ends_of(seen), within_s=LOST_WITHIN_S
    )
    never_sent = [record for record in records if record["upstream_name"] == "deaf"]
    assert Counter(record["state"] for record in never_sent)["lost"] > 0
    assert all(f":{victim}" in record["worker"] for record in records if record["state"] == "lost")


def committed(gateway: RunningGateway) -> int:
    (row,) = gateway.sql("SELECT count(*) AS n FROM usage_usagerecord WHERE state = 'open' AND upstream_name = 'deaf'")
    return int(row["n"])


@pytest.mark.timeout(180)
def test_a_worker_killed_between_last_byte_and_settling_leaves_lost_records(
    prepared: Prepare, upstream: ScriptedUpstream
) -> None:
    dying = prepared()
    victim = dying.worker_pids()[0]

    with dying.connect() as lock, aside(dying, [Visit(model="script/ok,frames=60,gap=20ms")] * STREAMS) as seen:
        wait_for_streams(upstream, STREAMS)
        # Nothing can be added to the sums, so nothing can be settled.
        lock.autocommit = False
        lock.execute("LOCK TABLE usage_usagehour IN SHARE MODE")
        upstream.wait_for(lambda truth: truth["totals"]["open"] == 0, within_s=10)
        time.sleep(0.5)
        dying.kill9(victim)
        # What the dead worker had sent must not be committed after all when the lock is gone.
        lock.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        time.sleep(0.2)
        lock.rollback()

    assert all(one.ended_well for one in seen)
    records = assert_ledger_adds_up(
        dying, upstream, lost=STREAMS, ended_well=ends_of(seen), within_s=LOST_WITHIN_S
    )  # fmt: skip
    states = Counter(record["state"] for record in records)
    assert states.keys() == {"ok", "lost"}, states
    assert all(f":{victim}" in record["worker"] for record in records if record["state"] == "lost")


@pytest.mark.timeout(180)
def test_fifty_streams_end_well_or_are_told_when_the_gateway_is_stopped(
    prepared: Prepare, upstream: ScriptedUpstream
) -> None:
    stopping = prepared(BRIDGE_DRAIN_S="8")
    short, long = "script/ok,frames=60,gap=20ms", "script/ok,frames=1000,gap=20ms"

    with aside(stopping, [Visit(model=short if number % 2 else long) for number in range(STREAMS)]) as seen:
        wait_for_streams(upstream, STREAMS)
        status = stopping.stop()

    assert status == 0
    assert [one.visit.model for one in seen if not one.ended_well] == [long] * (STREAMS // 2)
    assert {one.error_type for one in seen if not one.ended_well} == {"overloaded_error"}
    records = assert_ledger_adds_up(stopping, upstream, ended_well=ends_of(seen))
    assert Counter(record["state"] for record in records) == {"ok": STREAMS // 2, "truncated": STREAMS // 2}
    assert stopping.sql("SELECT * FROM usage_workerlease") == []
