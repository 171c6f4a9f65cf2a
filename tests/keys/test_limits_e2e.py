"""Limits of credentials across two workers, in real processes."""

import pytest

from tests.e2e.client import ask
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import at_once, calls_by_key
from tests.upstream import ScriptedUpstream

pytestmark = pytest.mark.slow

MODEL = "mock-n2-d0"
KEYS = ["sk-aaaa-0001", "sk-bbbb-0002", "sk-cccc-0003"]


def limited(rpm: int) -> list[str]:
    """Return the command that gives every credential this limit, before the workers start."""
    code = f"from keys.models import Credential; Credential.objects.update(rpm={rpm})"
    return ["shell", "--verbosity", "0", "-c", code]


def asked(running: RunningGateway, count: int) -> tuple[int, int]:
    """Ask so often, and count the good answers and the refusals."""
    seen = at_once(count, lambda number: ask(running, MODEL, f"question {number}"))
    good = sum(one.ended_well for one in seen)
    return good, sum(one.status == 429 and "retry-after" in one.headers for one in seen)


def test_with_redis_requests_per_minute_are_exact_over_both_workers(
    gateway: MakeGateway, scripted: ScriptedUpstream, redis_url: str
) -> None:
    running = gateway(workers=2, upstream=scripted, keys=KEYS, commands=[limited(7)], BRIDGE_REDIS_URL=redis_url)
    running.hurry(first_byte_timeout_s=20, idle_timeout_s=20)

    assert asked(running, 50) == (21, 29)

    assert calls_by_key(scripted, KEYS) == dict.fromkeys(KEYS, 7)
    # What was refused left no trace in the ledger: it was no attempt.
    assert [record["state"] for record in running.settled()] == ["ok"] * 21


def test_without_redis_each_worker_takes_its_share_and_together_they_keep_the_limit(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    running = gateway(workers=2, upstream=scripted, keys=KEYS, commands=[limited(8)])
    running.hurry(first_byte_timeout_s=20, idle_timeout_s=20)

    good, _ = asked(running, 60)

    assert 12 <= good <= 24
    assert max(calls_by_key(scripted, KEYS).values()) <= 8
