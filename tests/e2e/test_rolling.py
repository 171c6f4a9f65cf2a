"""The gateway is replaced under load, and no client notices: the workers on one port, or one server by the next."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from tests.e2e.client import TLS, question
from tests.e2e.crowd import Sight, Visit, call
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream
from translator import refusals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STREAMS = 50
#: Clients that make short calls one after the other on a connection that they keep.
KEEPERS = 10
KEYS = [f"sk-{number}" for number in range(8)]
STREAM = Visit(model="script/ok,frames=30,gap=100ms")
#: A balancer looks so often whether a server is ready, in seconds.
LOOK_EVERY_S = 0.25
#: What the next version's `migrate` might do to the table that everybody writes to.
NEXT_MIGRATION = "ALTER TABLE usage_usagerecord ADD COLUMN of_the_next_version text NOT NULL DEFAULT ''"


@dataclass(kw_only=True)
class Load:
    """What clients see that go on calling, each at the gateway that `choose` gives it at that moment."""

    choose: Callable[[], RunningGateway]
    seen: list[Sight] = field(default_factory=list)
    short: int = 0
    errors: list[str] = field(default_factory=list)
    #: Calls that weren't sent since Postgres was late: so it is on a busy machine, whoever is replaced.
    late: int = 0
    is_over: bool = False

    async def stream(self) -> None:
        while not self.is_over:
            try:
                seen = await call(self.choose(), STREAM)
            except OSError as exc:
                self._note(f"stream: {exc!r}")
            else:
                if seen.ended_well:
                    self.seen.append(seen)
                    continue
                self._note(f"stream: {seen.status} {seen.body[-300:]!r}")
            await asyncio.sleep(1)

    async def keep_calling(self) -> None:
        """Call on one connection as long as it lasts, without any second try."""
        async with httpx.AsyncClient(trust_env=False, verify=TLS, timeout=30) as client:
            while not self.is_over:
                to = self.choose()
                url, headers = f"{to.base_url}/v1/messages", {"x-api-key": to.token}
                try:
                    answer = await client.post(url, headers=headers, json=question("mock-n3-d0"))
                    self.short += 1
                    if answer.status_code != 200:
                        self._note(f"short: {answer.status_code} {answer.text}")
                except httpx.HTTPError as exc:
                    self._note(f"short: {exc!r}")
                await asyncio.sleep(0.2)

    def _note(self, error: str) -> None:
        if refusals.NO_LEDGER.message.replace("'", "") in error.replace("\\", "").replace("'", ""):
            self.late += 1
        else:
            self.errors.append(error)

    def check(self) -> None:
        """Make sure that no client saw an error, and that there were many."""
        assert self.errors == []
        assert len(self.seen) > 2 * STREAMS
        assert self.short > 10 * KEEPERS
        assert self.late < STREAMS

    def check_records(self, records: Sequence[Mapping[str, Any]]) -> None:
        states = Counter(record["state"] for record in records)
        assert states.keys() <= {"ok", "refused"}, states
        assert states["refused"] <= self.late


@asynccontextmanager
async def load(choose: Callable[[], RunningGateway]) -> AsyncIterator[Load]:
    """Have `STREAMS` streams and `KEEPERS` short calls running until the end of the block, and let them end."""
    running = Load(choose=choose)
    async with asyncio.TaskGroup() as group:
        for _ in range(STREAMS):
            group.create_task(running.stream())
        for _ in range(KEEPERS):
            group.create_task(running.keep_calling())
        try:
            await asyncio.sleep(2)
            yield running
            await asyncio.sleep(1)
        finally:
            running.is_over = True


def restart(gateway: RunningGateway) -> None:
    """Replace the workers and wait until the old ones are gone."""
    assert gateway.running is not None
    old = set(gateway.worker_pids())
    os.kill(gateway.running.pid, signal.SIGHUP)
    until(lambda: not old & set(gateway.worker_pids()), within_s=120)
    assert len(gateway.worker_pids()) == len(old)


async def test_workers_are_replaced_on_one_port_under_load(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    rolling = gateway(workers=2, upstream=upstream, keys=KEYS, BRIDGE_DRAIN_S="20")
    readiness: Counter[bool] = Counter()

    async def watch() -> None:
        while True:
            readiness[await asyncio.to_thread(rolling.is_ready)] += 1
            await asyncio.sleep(0.05)

    async with load(lambda: rolling) as running:
        watching = asyncio.create_task(watch())
        await asyncio.to_thread(restart, rolling)
        await asyncio.to_thread(rolling.execute, NEXT_MIGRATION)
        await asyncio.to_thread(rolling.command, "migrate")
        await asyncio.to_thread(restart, rolling)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    running.check()
    assert readiness.keys() == {True}, readiness
    records = assert_ledger_adds_up(rolling, upstream, ended_well={s.request_id: True for s in running.seen})
    running.check_records(records)
    assert len({record["worker"] for record in records}) >= 6


async def test_servers_replace_one_another_behind_a_balancer(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    servers = [gateway(upstream=upstream, keys=KEYS, BRIDGE_DRAIN_S="20", BRIDGE_NOTICE_S="3")]
    ready = {0}

    async def balance() -> None:
        """Look at `/readyz`, as a load balancer would."""
        while True:
            for number, server in enumerate(list(servers)):
                (ready.add if await asyncio.to_thread(server.is_ready) else ready.discard)(number)
            await asyncio.sleep(LOOK_EVERY_S)

    async with load(lambda: servers[max(ready)]) as running:
        balancing = asyncio.create_task(balance())
        for is_middle in (True, False):
            if is_middle:
                await asyncio.to_thread(servers[-1].command, "migrate")
            newer = replace(servers[-1], running=None)
            await asyncio.to_thread(newer.start)
            old = len(servers) - 1
            servers.append(newer)
            await asyncio.to_thread(until, lambda newest=old + 1: newest in ready, within_s=10)
            assert await asyncio.to_thread(servers[old].stop) == 0
        balancing.cancel()
        with suppress(asyncio.CancelledError):
            await balancing

    try:
        running.check()
        records = assert_ledger_adds_up(servers[-1], upstream, ended_well={s.request_id: True for s in running.seen})
        running.check_records(records)
        assert len({record["worker"] for record in records}) == 3
    finally:
        servers[-1].stop()
