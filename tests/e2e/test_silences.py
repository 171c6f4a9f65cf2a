"""An upstream that thinks for a while is no upstream that has ended, and its client must not lose patience."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.client import Seen, ask
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway
from tests.keys.processes import until
from tests.translator.core.upstreams import chunk, finish, usage
from tests.upstream import ScriptedUpstream

#: A script, how many words it says, and how many pings its silences are worth.
PAUSES = [
    ("script/ok,frames=3,gap=2500ms", 3, 0),
    ("script/ok,frames=2,gap=13s", 2, 1),
    ("script/wait=17s,frames=2", 2, 0),
    ("script/think,wait=4s,gap=300ms", 1, 0),
]

#: A stream may take so long, in seconds, where that is what's tested.
TOTAL_S = 4

#: What an upstream sends after its last word, and the longest that a client waits for the end, in seconds: less than
#: what it would be if nobody cut the wait short.
LAST_WORDS = [chunk(content="Hello"), finish()]
AFTERTHOUGHTS: dict[str, tuple[dict[str, Any], float]] = {
    "usage": ({"sse": [*LAST_WORDS, usage(20, 5)], "delays_ms": {"2": 2600}, "sse_end": "hang"}, 25),
    "comments": (
        {
            "sse": [*LAST_WORDS, usage(20, 5), *[": still here\n\n"] * 30],
            "delays_ms": {str(n): 900 for n in range(3, 33)},
            "sse_end": "hang",
        },
        25,
    ),
}


def count_of(seen: Seen, kind: str) -> int:
    return sum(event["type"] == kind for event in seen.events)


@pytest.mark.timeout(600)
def test_a_pause_is_no_end(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    patient = gateway(upstream=upstream)

    with ThreadPoolExecutor(len(PAUSES)) as pool:
        answers = list(pool.map(lambda pause: ask(patient, pause[0]), PAUSES))

    for (script, words, pings), seen in zip(PAUSES, answers, strict=True):
        assert seen.ended_well, (script, seen.events)
        assert len(seen.text.split()) >= words, script
        # Every stream begins with one of its own.
        assert count_of(seen, "ping") > pings, script
    records = assert_ledger_adds_up(patient, upstream)
    assert {(record["state"], record["source"]) for record in records} == {("ok", "upstream")}


@pytest.mark.timeout(600)
def test_the_end_is_waited_for_but_not_for_ever(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    patient = gateway(upstream=upstream)
    for model, (raw, _) in AFTERTHOUGHTS.items():
        upstream.script(raw=raw, model=model)

    def timed(model: str) -> tuple[Seen, float]:
        start = time.monotonic()
        return ask(patient, model), time.monotonic() - start

    with ThreadPoolExecutor(len(AFTERTHOUGHTS)) as pool:
        answers = list(pool.map(timed, AFTERTHOUGHTS))

    for (_, longest_s), (seen, took_s) in zip(AFTERTHOUGHTS.values(), answers, strict=True):
        assert seen.ended_well
        assert took_s < longest_s
        assert seen.events[-2]["usage"]["output_tokens"] == 5


#: Streams that never keep silent for long, and never end: a word now and then, and as fast as it goes.
ENDLESS = ["script/ok,frames=4000,gap=40ms", "script/ok,frames=400000,gap=0"]
#: So much of the second one fits between the upstream's send and the gateway's read: some megabytes.
BUFFERED_TOKENS = 50_000


@pytest.mark.parametrize("model", ENDLESS, ids=["slow", "fast"])
@pytest.mark.timeout(600)
def test_a_stream_that_goes_on_and_on_ends_at_the_total_limit(
    gateway: MakeGateway, upstream: ScriptedUpstream, model: str
) -> None:
    limits = {"first_byte_timeout_s": TOTAL_S, "total_timeout_s": TOTAL_S}
    limited = gateway(upstream=upstream, prepare=lambda made: made.hurry(**limits))

    seen = ask(limited, model, max_tokens=100_000)

    assert seen.error == {"type": "timeout_error", "message": f"upstream timed out after {TOTAL_S}s"}
    assert len(seen.text.split()) > 20
    [record] = assert_ledger_adds_up(limited, upstream, ended_well={seen.request_id: False}, in_flight=BUFFERED_TOKENS)
    assert record["state"] == "timeout"
    # By itself the shorter of the two ends after forty times as long, and nothing else stops it before a minute.
    assert TOTAL_S * 1000 <= record["duration_ms"] < 10 * TOTAL_S * 1000
    assert record["source"] in {"partial", "estimated"}
    query = "SELECT cause, failures FROM keys_credentialstate WHERE failures > 0"
    states = until(lambda: limited.sql(query), within_s=60)
    assert states == [{"cause": "slow", "failures": 1}]
