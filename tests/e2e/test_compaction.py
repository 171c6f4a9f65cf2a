"""Long histories through whole gateways: what the upstream gets of them, what the client is told, who pays."""

from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.e2e.client import TIMEOUT_S
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream

WINDOW = 4_000
SAYS = "script/text=done"


def set_compaction(gateway: RunningGateway, mode: str, *, model: str = SAYS, summaries_by: str = "") -> None:
    gateway.execute(
        "INSERT INTO keys_upstreammodel"
        " (upstream_id, name, tools, context_window, compaction, compact_above, compact_to, summary_alias)"
        " SELECT id, %s, 'native', %s, %s, 60, 30, %s FROM keys_upstream",
        [model, WINDOW, mode, summaries_by],
    )


def history(turns: int, *, words: str = "line of a log, ") -> list[dict[str, Any]]:
    """A tool loop of so many calls, each with a result of some hundred tokens."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find the fault."}]
    for number in range(turns):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"path": f"log.{number}"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"{number}: {words * 25}"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return messages


def ask(
    gateway: RunningGateway,
    messages: list[dict[str, Any]],
    *,
    token: str = "",
    session: str = "s1",
    stream: bool = False,
    **headers: str,
) -> httpx.Response:
    body = {"model": SAYS, "max_tokens": 50, "messages": messages, "stream": stream}
    body["metadata"] = {"user_id": f"u_session_{session}"}
    headers = {"x-api-key": token or gateway.token, **headers}
    return httpx.post(f"{gateway.base_url}/v1/messages", json=body, headers=headers, trust_env=False, timeout=TIMEOUT_S)


def sent(upstream: ScriptedUpstream, model: str = SAYS) -> list[list[dict[str, Any]]]:
    """The messages of each call that reached the upstream for a model, oldest first."""
    bodies = [request["body"] for request in upstream.requests()]
    return [body["messages"] for body in bodies if body["model"] == model]


@pytest.fixture(scope="module")
def trimming(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(upstream=upstream_process, prepare=lambda made: set_compaction(made, "trim"))


@pytest.mark.parametrize("stream", [False, True])
def test_old_messages_are_left_out_and_the_client_is_told(
    trimming: RunningGateway, upstream: ScriptedUpstream, stream: bool
) -> None:
    answer = ask(trimming, history(40), stream=stream)

    assert answer.status_code == 200, answer.text
    assert answer.headers["bridge-compaction"].startswith("trim; covered=")
    [messages] = sent(upstream)
    assert messages[0]["content"].startswith("Find the fault.\n\n[This conversation no longer fits")
    assert messages[-1]["content"].startswith("39: line of a log")
    called = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert called == [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    [record] = assert_ledger_adds_up(trimming, upstream)
    assert record["notes"][0] == "compaction_trim"
    assert 0 < record["input_tokens"] < WINDOW


def test_turn_after_turn_the_upstream_sees_the_same_beginning(
    trimming: RunningGateway, upstream: ScriptedUpstream
) -> None:
    for turns in (30, 31, 32, *range(30, 40)):
        assert ask(trimming, history(turns)).status_code == 200

    # The first answers have told how the model counts, once and for all.
    seen = sent(upstream)[3:]
    leaps = sum(before != after[: len(before)] for before, after in pairwise(seen))
    assert leaps <= 1
    records = assert_ledger_adds_up(trimming, upstream)[4:]
    assert sum(record["cache_read_tokens"] > record["input_tokens"] for record in records) >= len(records) - leaps


def test_a_client_may_ask_for_its_own_messages_and_is_told_as_ever_that_they_are_too_long(
    trimming: RunningGateway, upstream: ScriptedUpstream
) -> None:
    refused = ask(trimming, history(60), **{"bridge-compaction": "off"})

    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("prompt is too long: ")
    assert refused.json()["error"]["message"].endswith(f" tokens > {WINDOW} maximum")
    assert ask(trimming, history(10), **{"bridge-compaction": "off"}).status_code == 200
    assert len(sent(upstream)) == 1


def test_what_does_not_fit_in_any_way_is_refused_in_the_old_words(trimming: RunningGateway) -> None:
    refused = ask(trimming, [{"role": "user", "content": "too much " * WINDOW}])

    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("prompt is too long: ")


def test_a_large_result_loses_its_middle_and_nothing_else_is_lost(
    trimming: RunningGateway, upstream: ScriptedUpstream
) -> None:
    messages = history(3)
    messages[2]["content"][0]["content"] = "first line\n" + "x y z\n" * 5_000 + "last line"

    answer = ask(trimming, messages)

    assert answer.headers["bridge-compaction"].startswith("clip; clipped=1; saved=")
    [seen] = sent(upstream)
    assert len(seen) == len(messages)
    assert seen[2]["content"].startswith("first line\n")
    assert seen[2]["content"].endswith("last line")


def test_count_tokens_counts_what_the_client_has(trimming: RunningGateway) -> None:
    body = {"model": SAYS, "messages": history(60)}
    counted = httpx.post(
        f"{trimming.base_url}/v1/messages/count_tokens",
        json=body,
        headers={"x-api-key": trimming.token},
        trust_env=False,
        timeout=TIMEOUT_S,
    )

    assert counted.json()["input_tokens"] > WINDOW
