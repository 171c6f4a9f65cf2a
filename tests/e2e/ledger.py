"""The sum (`tests.the_sum`) of a gateway that runs, with the scripted upstream behind it."""

import time
from collections.abc import Mapping
from typing import Any

from tests.gateway import RunningGateway
from tests.the_sum import IN_FLIGHT_TOKENS, check_the_sum
from tests.upstream import ScriptedUpstream

#: A request lets go of its budgets once its connection is closed: a little after its last record is settled.
RELEASED_WITHIN_S = 60


def assert_ledger_adds_up(
    gateway: RunningGateway,
    upstream: ScriptedUpstream,
    *,
    ended_well: Mapping[str, bool] | None = None,
    unreachable: int = 0,
    lost: int = 0,
    within_s: float = 60,
    in_flight: int = IN_FLIGHT_TOKENS,
) -> list[dict[str, Any]]:
    """Hold every usage record against the upstream's own account, and return the records.

    Args:
        gateway: Its records, all made since `upstream` was reset, or older than that and not of it.
        upstream: The only upstream that was called meanwhile.
        ended_well: See `check_the_sum`, as the others.
        within_s: How long attempts and records may take to end.
    """
    truth = upstream.wait_for(lambda truth: truth["totals"]["open"] == 0, within_s=within_s)
    attempts = {attempt["request_id"] for attempt in truth["attempts"]}
    assert len(attempts) == len(truth["attempts"]), "two attempts came under one id"
    first = min((attempt["started_at"] for attempt in truth["attempts"]), default=0.0)
    settled = gateway.settled(within_s=within_s)
    records = [r for r in settled if str(r["id"]) in attempts or r["started_at"].timestamp() > first]
    _wait_for_releases(gateway)

    check_the_sum(
        gateway.sql,
        records,
        truth["attempts"],
        lost=lost,
        unreachable=unreachable,
        ended_well=ended_well,
        in_flight=in_flight,
    )
    return records


def _wait_for_releases(gateway: RunningGateway) -> None:
    until = time.monotonic() + RELEASED_WITHIN_S
    while time.monotonic() < until and gateway.sql("SELECT FROM usage_reservation LIMIT 1"):
        time.sleep(0.05)
