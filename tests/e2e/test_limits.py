"""Limits of client tokens through a gateway of two workers, which count together."""

import asyncio

import pytest

from tests.e2e.crowd import Visit, crowd
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream

LIMIT = 10
CALLS = 60
LONG = Visit(model="script/wait=1.5s,frames=5")
SHORT = Visit(model="mock-n2-d0", stream=False)


@pytest.fixture(scope="module")
def limited(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(workers=2, upstream=upstream_process, keys=[f"sk-{number}" for number in range(8)])


async def set_limits(gateway: RunningGateway, *, rpm: int | None = None, concurrency: int | None = None) -> None:
    """Give every client token these limits, and wait until both workers know."""
    gateway.execute("UPDATE keys_clienttoken SET rpm = %s, concurrency = %s", [rpm, concurrency])
    await asyncio.sleep(2)


async def test_requests_per_minute_are_exact_over_both_workers(limited: RunningGateway) -> None:
    await set_limits(limited, rpm=LIMIT)

    seen = await crowd(limited, [SHORT] * CALLS, at_once=20)

    assert sorted(one.status for one in seen) == [200] * LIMIT + [429] * (CALLS - LIMIT)


async def test_answers_at_once_hold_over_both_workers(limited: RunningGateway) -> None:
    await set_limits(limited, concurrency=LIMIT)

    seen = await crowd(limited, [LONG] * CALLS, at_once=CALLS)
    again = await crowd(limited, [SHORT] * LIMIT, at_once=LIMIT)

    assert sorted(one.status for one in seen) == [200] * LIMIT + [429] * (CALLS - LIMIT)
    assert [one.status for one in again] == [200] * LIMIT
