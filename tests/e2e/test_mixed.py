"""Many calls at once, good and bad, some of whose clients hang up: the sum must be exact."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from itertools import cycle, islice

import httpx
import pytest

from demo.sample import CHARACTERS_PER_TOKEN
from tests.e2e.client import ask, opened, question
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

CALLS = 180
HANG_UPS = 20
#: One in so many leaves before the answer has begun.
LEAVES_EARLY = 4
#: How soon the upstream must know that the client has left, and how often a busy machine may be late.
KNOWN_WITHIN_S, TRIES = 2, 5
AT_ONCE = 16
#: Streams and whole answers, short and long; every ninth call breaks somewhere.
MIX = [
    ("mock-n20-d0", True),
    ("script/ok,frames=40,gap=2ms", True),
    ("mock-n50-d0", False),
    ("script/think,tools=2,interleaved", True),
    ("script/nousage,frames=30", True),
    ("mock-n10-d5", True),
    ("script/nodone", True),
    ("script/cut,frame=7", True),
    ("script/usage=-5,frames=12", True),
]


def hang_up(gateway: RunningGateway, number: int) -> None:
    """Read some of a long answer and leave, or leave before it has begun."""
    body = question(
        "script/wait=60s,frames=50" if number % LEAVES_EARLY == 0 else "script/ok,frames=3000,gap=20ms", stream=True
    )
    if number % LEAVES_EARLY == 0:
        leave_before_the_answer(gateway, body)
        return
    with opened(gateway, body) as answer:
        for _ in islice(answer.iter_raw(), 1 + 3 * (number % 5)):
            pass


def leave_before_the_answer(gateway: RunningGateway, body: dict[str, object]) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{gateway.base_url}/v1/messages",
            json=body,
            headers={"x-api-key": gateway.token},
            timeout=0.15,
            trust_env=False,
        )


def test_two_hundred_calls_with_twenty_hang_ups_add_up(shared: RunningGateway, upstream: ScriptedUpstream) -> None:
    calls = list(islice(cycle(MIX), CALLS))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        leaving = [pool.submit(hang_up, shared, number) for number in range(HANG_UPS)]
        answers = list(pool.map(lambda call: ask(shared, call[0], stream=call[1]), calls))
        for one in leaving:
            one.result()

    records = assert_ledger_adds_up(
        shared,
        upstream,
        ended_well={seen.request_id: seen.ended_well for seen in answers},
        unreachable=HANG_UPS // LEAVES_EARLY,
    )

    states = [record["state"] for record in records]
    # Those that left early may have left before their attempt was on its way: then nothing was sent.
    early = HANG_UPS // LEAVES_EARLY
    assert HANG_UPS - early <= states.count("client_gone") <= HANG_UPS
    assert states.count("refused") <= early
    assert states.count("ok") >= CALLS * 8 // 9
    good = [seen for seen, (model, _) in zip(answers, calls, strict=True) if "cut" not in model]
    assert all(seen.ended_well for seen in good), [seen for seen in good if not seen.ended_well][:3]


def test_a_client_that_leaves_ends_the_upstream_call_within_two_seconds(
    shared: RunningGateway, upstream: ScriptedUpstream
) -> None:
    took_s = float("inf")
    for _ in range(TRIES):
        upstream.reset()
        with opened(shared, question("script/silent,frame=3", stream=True)) as answer:
            next(answer.iter_raw())
        left = time.monotonic()

        upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)

        took_s = min(took_s, time.monotonic() - left)
        [record] = assert_ledger_adds_up(shared, upstream)
        assert (record["state"], record["source"]) == ("client_gone", "estimated")
        if took_s < KNOWN_WITHIN_S:
            break
    assert took_s < KNOWN_WITHIN_S


def test_a_client_that_stops_reading_stops_the_reading_from_the_upstream(
    shared: RunningGateway, upstream: ScriptedUpstream
) -> None:
    with opened(shared, question("script/size=100000,frames=1000", stream=True, max_tokens=1_000_000)) as answer:
        parts = answer.iter_raw()
        next(parts)
        sent = tokens_sent_in_the_end(upstream, within_s=60)
        assert upstream.truth()["totals"]["open"] == 1

    megabytes = sent * CHARACTERS_PER_TOKEN / 1e6
    assert megabytes < 30, "of a hundred"
    upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)
    assert shared.settled()[-1]["state"] == "client_gone"


def tokens_sent_in_the_end(upstream: ScriptedUpstream, within_s: float) -> int:
    """Wait until the upstream has sent nothing for two seconds."""
    until = time.monotonic() + within_s
    sent = [-2, -1]
    while sent[-1] != sent[-2]:
        assert time.monotonic() < until
        time.sleep(2)
        sent.append(int(upstream.attempts()[0]["sent_tokens"]))
    return sent[-1]


def test_a_credential_that_rests_for_one_worker_rests_for_the_other(
    shared: RunningGateway, upstream: ScriptedUpstream
) -> None:
    upstream.script("status=429,retry_after=60", key="sk-3")
    resting = sha256(b"sk-3").hexdigest()
    until = time.monotonic() + 60
    while all(attempt["key_sha256"] != resting for attempt in upstream.attempts()):
        assert time.monotonic() < until
        ask(shared, "mock-n1-d0")
    query = "SELECT FROM keys_credentialstate WHERE state = 'cooling' AND until > now()"
    while not shared.sql(query):  # the worker that was told tells the other one
        assert time.monotonic() < until
        time.sleep(0.05)
    shared.wait_until_known("bridge_states")
    upstream.reset()
    upstream.script("status=429,retry_after=60", key="sk-3")

    workers: set[str] = set()
    until = time.monotonic() + 50
    while len(workers) < 2:  # which of them takes a connection is the system's affair
        assert time.monotonic() < until
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda _: ask(shared, "mock-n1-d0"), range(64)))
        assert all(seen.ended_well for seen in answers)
        workers = {record["worker"] for record in assert_ledger_adds_up(shared, upstream)}

    assert resting not in {attempt["key_sha256"] for attempt in upstream.attempts()}


def test_what_was_said_before_the_client_left_counts_though_nobody_read_it(
    shared: RunningGateway, upstream: ScriptedUpstream
) -> None:
    body = question("script/ok,frames=60,gap=10ms", stream=True)
    with ExitStack() as still, opened(shared, body) as answer:
        parts = answer.iter_raw()
        next(parts)
        still.enter_context(shared.standing_still(*shared.worker_pids()))
        upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)

    (record,) = assert_ledger_adds_up(shared, upstream)

    # Whether the end or the closed connection is noticed first is the loop's affair.
    assert record["state"] in ("client_gone", "ok")
    assert record["source"] == "upstream"
