"""A worker that stands still is seen from outside once it goes on, and the other one serves meanwhile."""

import os
import signal
import time

import httpx

from tests.e2e.client import ask
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream

GAUGE = "bridge_loop_lateness_seconds"


def lateness_of(gateway: RunningGateway) -> float:
    text = httpx.get(f"{gateway.base_url}/metrics", trust_env=False, timeout=10).text
    [line] = [line for line in text.splitlines() if line.startswith(GAUGE)]
    return float(line.split()[-1])


def test_a_worker_that_stood_still_is_seen(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    two = gateway(workers=2, upstream=upstream)
    until(lambda: len(two.sql("SELECT * FROM usage_workerlease")) == 2, within_s=30)
    before = lateness_of(two)
    stopped, _ = two.worker_pids()

    os.kill(stopped, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(stopped, signal.SIGCONT)

    assert before < 1.5
    until(lambda: lateness_of(two) > 2, within_s=5)
    assert ask(two, "mock-n1-d0").ended_well
    [line] = [line for line in two.log().splitlines() if "the event loop was held up" in line]
    assert float(line.split()[-5]) > 2
