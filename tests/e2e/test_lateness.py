"""A worker that stands still is seen from outside once it goes on, and the other one serves meanwhile."""

import time

import httpx
import pytest

from tests.e2e.client import ask
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream
from translator.lateness import WARN_ABOVE_S, WINDOW_S

GAUGE = "bridge_loop_lateness_seconds"


def lateness_of(gateway: RunningGateway) -> float:
    text = httpx.get(f"{gateway.base_url}/metrics", trust_env=False, timeout=60).text
    [line] = [line for line in text.splitlines() if line.startswith(GAUGE)]
    return float(line.split()[-1])


@pytest.mark.timeout(600)
def test_a_worker_that_stood_still_is_seen(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    two = gateway(workers=2, upstream=upstream)
    until(lambda: len(two.sql("SELECT * FROM usage_workerlease")) == 2, within_s=60)
    # A start on a busy machine may be late itself: it is shown, and no other warning given, for up to two windows.
    until(lambda: lateness_of(two) < WARN_ABOVE_S, within_s=3 * WINDOW_S)
    said = len(two.log())
    stopped, _ = two.worker_pids()

    with two.standing_still(stopped):
        time.sleep(2.5)

    until(lambda: lateness_of(two) > 2, within_s=60)
    assert ask(two, "mock-n1-d0").ended_well
    lines = [line for line in two.log()[said:].splitlines() if "the event loop was held up" in line]
    # The other one may have been late too, if the machine was busy, but it didn't stand still.
    [line] = [line for line in lines if float(line.split()[-5]) > 2]
    assert "WARNING" in line
