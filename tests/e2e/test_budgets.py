"""Budgets through a whole gateway: what is refused never reaches an upstream, and the client learns why."""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.client import ask
from tests.e2e.crowd import Visit, crowd_that_waits
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream

CALLS = 100
ROOM_FOR = 10
MAX_TOKENS = 1000
#: More than the question is estimated at, and far less than what the client allows for the answer.
INPUT_AT_MOST = 90


def give_budget(gateway: RunningGateway, name: str, limit: int, **more: Any) -> None:
    """Give Alice a budget. Workers read budgets when they start, and then every two seconds."""
    facts = {"unit": "tokens", "period": "total"} | more
    gateway.execute(
        'INSERT INTO usage_budget (name, subject, subject_id, period, unit, enabled, "limit", spent, reserved,'
        " warn_percents, warn_emails, warn_webhook, warned_percent)"
        " SELECT %s, 'user', id, %s, %s, true, %s, 0, 0, '{}', '{}', '', 0 FROM auth_user WHERE username = 'alice'",
        [name, facts["period"], facts["unit"], limit],
    )


@pytest.fixture
def budgeted(gateway: MakeGateway, upstream: ScriptedUpstream) -> Callable[..., RunningGateway]:
    def make(name: str, limit: int, **more: Any) -> RunningGateway:
        return gateway(
            workers=2,
            upstream=upstream,
            keys=[f"sk-{number}" for number in range(8)],
            prepare=lambda made: give_budget(made, name, limit, **more),
        )

    return make


async def test_of_a_hundred_calls_at_once_a_budget_for_ten_lets_ten_through(
    budgeted: Callable[..., RunningGateway], upstream: ScriptedUpstream
) -> None:
    tight = budgeted("ten calls", ROOM_FOR * (MAX_TOKENS + INPUT_AT_MOST))

    visits = [Visit(model="script/frames=5", max_tokens=MAX_TOKENS)] * CALLS
    seen = await crowd_that_waits(tight, upstream, visits, waiting=ROOM_FOR)

    assert len(upstream.attempts()) == ROOM_FOR
    assert sorted(one.status for one in seen) == [200] * ROOM_FOR + [402] * (CALLS - ROOM_FOR)
    records = assert_ledger_adds_up(
        tight, upstream, ended_well={one.request_id: one.ended_well for one in seen if one.status == 200}
    )
    assert len(records) == ROOM_FOR
    [budget] = tight.sql("SELECT * FROM usage_budget")
    assert (budget["spent"], budget["reserved"]) == (sum(tokens_of(record) for record in records), 0)


def tokens_of(record: dict[str, Any]) -> int:
    kinds = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
    return sum(int(record[kind]) for kind in kinds)


async def test_a_client_over_budget_is_told_which_one_and_when_it_starts_anew(
    budgeted: Callable[..., RunningGateway], upstream: ScriptedUpstream
) -> None:
    daily = budgeted("alice's days", 5, period="day")

    asked_at = datetime.now(UTC)
    refused = await asyncio.to_thread(ask, daily, "mock-n3-d0")

    # The day may end meanwhile.
    tomorrow = "|".join(str((at + timedelta(days=1)).date()) for at in (asked_at, datetime.now(UTC)))
    assert (refused.status, refused.headers["x-should-retry"]) == (402, "false")
    assert refused.error["type"] == "billing_error"
    assert re.fullmatch(
        rf"""the budget "alice's days" has 5 tokens left, and this call may need up to [\d,]+ tokens: a smaller max_tokens needs"""
        rf""" less; it starts anew at ({tomorrow}) 00:00 UTC""",
        refused.error["message"],
    )
    assert upstream.attempts() == []
