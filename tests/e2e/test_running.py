"""Running calls: how many there may be, and how they end when their token or the gateway does."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import httpx
import pytest

from tests.e2e.client import Seen, ask, opened, question
from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.test_endings import streams_open
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream

#: An upstream that takes its time to say the first word.
SLOW = "script/wait=60s,frames=3"
LONG = "script/ok,frames=9000,gap=20ms"
#: A revocation is known within a second and looked for every five; by itself no call ends before a minute.
ENDS_WITHIN_S = 30

REVOKE = "UPDATE keys_clienttoken SET revoked_at = now() WHERE user_id = (SELECT id FROM auth_user WHERE username = %s)"
SWITCH_OFF = "UPDATE auth_user SET is_active = false WHERE username = %s"
NARROW = """UPDATE keys_clienttoken SET scopes = '["other"]'
    WHERE user_id = (SELECT id FROM auth_user WHERE username = %s)"""


@pytest.fixture(scope="module")
def two(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(workers=2, upstream=upstream_process, keys=["sk-one", "sk-two", "sk-three"], prepare=be_patient)


def be_patient(made: RunningGateway) -> None:
    made.hurry(first_byte_timeout_s=200, idle_timeout_s=200)


def as_member(gateway: RunningGateway, name: str) -> RunningGateway:
    return replace(gateway, token=gateway.issue_token(name))


@contextmanager
def asking(
    gateway: RunningGateway, upstream: ScriptedUpstream, *calls: tuple[str, bool]
) -> Iterator[list[Future[Seen]]]:
    """Make the calls, model and whether to stream, and have all of them at the upstream."""
    with ThreadPoolExecutor(len(calls)) as pool:
        running = [pool.submit(ask, gateway, model, stream=stream) for model, stream in calls]
        upstream.wait_for(lambda truth: truth["totals"]["open"] == len(calls))
        yield running


@pytest.mark.parametrize(
    ("change", "error"),
    [(REVOKE, "authentication_error"), (SWITCH_OFF, "authentication_error"), (NARROW, "permission_error")],
    ids=["revoked", "switched off", "scope gone"],
)
def test_calls_end_with_the_right_to_make_them(
    two: RunningGateway, upstream: ScriptedUpstream, change: str, error: str
) -> None:
    name = f"leaver-{error}-{len(change)}"
    leaver = as_member(two, name)
    calls = [(SLOW, True), (SLOW, False), (LONG, True), (LONG, True)]

    with asking(leaver, upstream, *calls) as running:
        two.execute(change, [name])
        began = time.monotonic()
        seen = [one.result() for one in running]
        took_s = time.monotonic() - began

    assert [one.error and one.error["type"] for one in seen] == [error] * len(calls)
    assert [one.status for one in seen[2:]] == [200, 200]
    assert all(one.status in (401, 403) for one in seen[:2])
    assert took_s < ENDS_WITHIN_S
    upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)
    assert_ledger_adds_up(two, upstream, ended_well={one.request_id: False for one in seen})
    two.wait_until_known()  # one of the two may have made all the calls
    assert ask(leaver, "mock-n1-d0").status in (401, 403)


def test_a_call_that_waits_is_told_when_the_gateway_stops(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    stopping = gateway(upstream=upstream, prepare=be_patient, BRIDGE_DRAIN_S="1")

    with asking(stopping, upstream, (SLOW, True), (SLOW, False)) as running:
        status = stopping.stop()
        seen = [one.result() for one in running]

    assert status == 0
    assert [(one.status, one.error and one.error["type"]) for one in seen] == [(503, "overloaded_error")] * 2
    assert all(one.headers["retry-after"] for one in seen)
    assert_ledger_adds_up(stopping, upstream, ended_well={one.request_id: False for one in seen})


def test_a_member_with_many_calls_leaves_places_for_others(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    small = gateway(upstream=upstream, BRIDGE_CALLS_MAX="4", BRIDGE_CALLS_PER_MEMBER_MAX="3")
    bob = as_member(small, "bob")
    long = question(LONG, stream=True, max_tokens=9000)

    with ExitStack() as running:
        streams = [running.enter_context(opened(small, long)).iter_raw() for _ in range(3)]
        assert all(map(next, streams))
        began = time.monotonic()
        of_alice = ask(small, "mock-n1-d0")
        took_s = time.monotonic() - began
        of_bob = ask(bob, "mock-n1-d0")
        streams.append(running.enter_context(opened(bob, long)).iter_raw())
        next(streams[-1])
        of_all = ask(bob, "mock-n1-d0")
        alive = httpx.get(f"{small.base_url}/livez", trust_env=False, timeout=60)
        page = httpx.get(f"{small.base_url}/admin/login/", trust_env=False, timeout=60)

    assert (of_alice.status, of_alice.error and of_alice.error["type"]) == (429, "rate_limit_error")
    assert of_alice.headers["retry-after"]
    assert took_s < ENDS_WITHIN_S
    assert of_bob.ended_well
    assert (of_all.status, of_all.error and of_all.error["type"]) == (503, "overloaded_error")
    assert (alive.status_code, page.status_code) == (200, 200)
    upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)
    small.settled()
    until(lambda: streams_open(small) == 0, within_s=60)  # a place is free once the connection is closed
    assert ask(small, "mock-n1-d0").ended_well
    assert_ledger_adds_up(small, upstream)
