"""Answers that the upstream cuts short, gone on with through a running gateway."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from demo.sample import WORDS
from tests.e2e.client import TIMEOUT_S, opened, question
from tests.e2e.client import ask as ask_once
from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.test_budgets import give_budget
from tests.gateway import IMPATIENT, MakeGateway, RunningGateway, route_words, upstream_words
from tests.upstream import ScriptedUpstream

TEXT = "script/frames=50,cap=20"
REPEATED = "script/frames=50,cap=20,repeats=15"
PREFIXED = "script/frames=50,cap=21"
TOOL = "script/tools=1,cap=4"
FAILING = "script/frames=50,cap=20,lasts=1,status=500"
BREAKING = "script/frames=50,cap=20,lasts=1,cut,frame=7"
SLOW = "script/frames=50,cap=20,gap=30ms"
#: Its second round takes as long as anybody looks at it: see `begin_fast`.
SLOWER = "script/frames=50,cap=20,gap=1s"
STUCK = "script/frames=50,cap=20,lasts=1,silent"
ENDLESS = "script/frames=500,cap=20"
OFF = "script/frames=50,cap=20,gap=0"
TEXTS = (TEXT, REPEATED, PREFIXED, FAILING, BREAKING, SLOW, SLOWER, STUCK, ENDLESS)
WEATHER: Any = {
    "name": "get_weather",
    "description": "Tell the weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture(scope="module")
def continuing(
    make_gateway: Callable[..., RunningGateway],
    upstream_process: ScriptedUpstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> RunningGateway:
    """A gateway that asks for more of what is cut off, and waits only shortly for the upstream that is stuck."""
    setup = setup_with(upstream_process, tmp_path_factory.mktemp("setup"), "scripted", "impatient")
    return make_gateway(
        upstream=upstream_process,
        keys=["sk-1", "sk-2"],
        commands=[
            upstream_words("impatient", upstream_process.base_url, "sk-3"),
            route_words(STUCK, "impatient", STUCK),
            ["import_setup", str(setup)],
        ],
        prepare=lambda made: made.hurry("impatient", **IMPATIENT),
    )


def setup_with(upstream: ScriptedUpstream, folder: Path, *names: str) -> Path:
    """Write the setup in which the models of these upstreams are gone on with."""
    on = [{"name": name, "continue_rounds": 3} for name in TEXTS]
    models = [*on, {"name": TOOL, "continue_rounds": 4, "tools": "emulated"}]
    setup = folder / "setup.yaml"
    known: dict[str, Any] = {"base_url": upstream.base_url, "models": models}
    known["profile_overrides"] = {"by_model": {PREFIXED.removeprefix("script/"): {"prefill": "prefix"}}}
    setup.write_text(json.dumps({"upstreams": [{"name": name, **known} for name in names]}), encoding="utf-8")
    return setup


@pytest.fixture
def client(continuing: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=continuing.base_url, api_key=continuing.token, max_retries=0) as client:
        yield client


def ask(client: anthropic.Anthropic, model: str, is_streamed: bool, **fields: Any) -> anthropic.types.Message:
    call: Any = {"model": model, "max_tokens": 500, "messages": [{"role": "user", "content": "Hello"}], **fields}
    if not is_streamed:
        message: anthropic.types.Message = client.messages.create(**call)
        return message
    with client.messages.stream(**call) as stream:
        kinds = [event.type for event in stream]
        assert [kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
        return stream.get_final_message()


def text_of(message: anthropic.types.Message) -> str:
    [block] = message.content
    assert block.type == "text"
    return block.text


def words(count: int) -> str:
    return " ".join((WORDS * count)[:count])


both_ways = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])


@both_ways
@pytest.mark.parametrize("model", [TEXT, REPEATED])
def test_a_text_goes_on_over_three_rounds(
    client: anthropic.Anthropic, continuing: RunningGateway, upstream: ScriptedUpstream, model: str, is_streamed: bool
) -> None:
    message = ask(client, model, is_streamed)

    assert (text_of(message).rstrip(), message.stop_reason) == (words(50), "end_turn")
    records = assert_ledger_adds_up(continuing, upstream)
    assert [(record["attempt"], record["state"], record["stop_reason"]) for record in records] == [
        (1, "ok", "max_tokens"), (2, "ok", "max_tokens"), (3, "ok", "end_turn"),
    ]  # fmt: skip
    assert [record["notes"] for record in records] == [["continued"], ["follow_up", "continued"], ["follow_up"]]
    assert message.usage.output_tokens == sum(record["output_tokens"] for record in records)
    first = records[0]
    assert message.usage.input_tokens == first["input_tokens"]
    assert len({record["credential_id"] for record in records}) == 1
    assert len({record["request_id"] for record in records}) == 1
    bodies = [request["body"] for request in upstream.requests()]
    assert [body["max_tokens"] for body in bodies] == [500, 480, 460 - (model == REPEATED)]
    assert [len(body["messages"]) for body in bodies] == [1, 3, 3]


@both_ways
def test_an_upstream_that_takes_the_beginning_of_an_answer_gets_it(
    client: anthropic.Anthropic, continuing: RunningGateway, upstream: ScriptedUpstream, is_streamed: bool
) -> None:
    message = ask(client, PREFIXED, is_streamed)

    assert (text_of(message).rstrip(), message.stop_reason) == (words(50), "end_turn")
    assert len(assert_ledger_adds_up(continuing, upstream)) == 3
    last = upstream.requests()[-1]["body"]["messages"][-1]
    assert last == {"role": "assistant", "content": words(41), "prefix": True}


@both_ways
def test_a_call_in_the_text_that_was_cut_comes_to_its_end(
    client: anthropic.Anthropic, continuing: RunningGateway, upstream: ScriptedUpstream, is_streamed: bool
) -> None:
    message = ask(client, TOOL, is_streamed, tools=[WEATHER])

    [call] = message.content
    assert call.type == "tool_use"
    assert (call.name, call.input, message.stop_reason) == ("get_weather", {"city": "item 0"}, "tool_use")
    assert len(assert_ledger_adds_up(continuing, upstream)) > 1


@both_ways
@pytest.mark.parametrize(
    ("model", "count", "state"), [(FAILING, 20, "upstream_error"), (BREAKING, 27, "truncated"), (STUCK, 20, "timeout")]
)
def test_a_later_round_that_fails_leaves_what_there_is(
    client: anthropic.Anthropic,
    continuing: RunningGateway,
    upstream: ScriptedUpstream,
    model: str,
    count: int,
    state: str,
    is_streamed: bool,
) -> None:
    message = ask(client, model, is_streamed)

    count = count if is_streamed else 20
    assert (text_of(message).rstrip(), message.stop_reason) == (words(count), "max_tokens")
    records = assert_ledger_adds_up(continuing, upstream)
    assert [record["state"] for record in records] == ["ok", state]


def test_rounds_have_an_end(
    client: anthropic.Anthropic, continuing: RunningGateway, upstream: ScriptedUpstream
) -> None:
    message = ask(client, ENDLESS, True)

    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 80)
    assert len(assert_ledger_adds_up(continuing, upstream)) == 4


@pytest.mark.parametrize("fields", [{"max_tokens": 20}, {"max_tokens": 60}, {"model": OFF}], ids=str)
def test_an_answer_that_is_as_long_as_it_may_be_is_not_gone_on_with(
    client: anthropic.Anthropic, continuing: RunningGateway, upstream: ScriptedUpstream, fields: dict[str, Any]
) -> None:
    message = ask(client, **({"model": TEXT, "is_streamed": True} | fields))

    assert (text_of(message).rstrip(), message.stop_reason) == (words(20), "max_tokens")
    [record] = assert_ledger_adds_up(continuing, upstream)
    assert record["notes"] == []


def begin_fast(upstream: ScriptedUpstream, model: str) -> None:
    """Have the next call for this model answered without its pauses."""
    upstream.script(model.removeprefix("script/").replace("gap=1s", "gap=0"), model=model, times=1)


def test_a_client_that_leaves_in_the_second_round(continuing: RunningGateway, upstream: ScriptedUpstream) -> None:
    begin_fast(upstream, SLOWER)
    with opened(continuing, question(SLOWER, stream=True)) as answer:
        parts = answer.iter_bytes()
        assert next(parts)
        upstream.wait_for(lambda truth: len(truth["attempts"]) == 2 and truth["attempts"][1]["sent_tokens"] > 0)

    records = assert_ledger_adds_up(continuing, upstream)
    assert [record["state"] for record in records] == ["ok", "client_gone"]


def test_follow_ups_are_counted_for_prometheus(
    client: anthropic.Anthropic, continuing: RunningGateway, upstream: ScriptedUpstream
) -> None:
    ask(client, TEXT, True)
    assert_ledger_adds_up(continuing, upstream)

    lines = httpx.get(f"{continuing.base_url}/metrics", trust_env=False, timeout=TIMEOUT_S).text.splitlines()
    assert any(line.startswith('bridge_follow_ups_total{upstream="scripted"}') for line in lines)


@both_ways
def test_a_budget_without_room_for_another_round_ends_the_answer(
    gateway: MakeGateway, upstream: ScriptedUpstream, tmp_path: Path, is_streamed: bool
) -> None:
    setup = setup_with(upstream, tmp_path, "scripted")
    # Room for the question and what it allows, and not for the question once more.
    tight = gateway(
        upstream=upstream,
        commands=[["import_setup", str(setup)]],
        prepare=lambda made: give_budget(made, "one round", 510),
    )

    with anthropic.Anthropic(base_url=tight.base_url, api_key=tight.token, max_retries=0) as client:
        message = ask(client, TEXT, is_streamed, max_tokens=500)

    assert (text_of(message).rstrip(), message.stop_reason) == (words(20), "max_tokens")
    [record] = assert_ledger_adds_up(tight, upstream)
    assert record["notes"] == ["continued"]


@pytest.mark.parametrize(
    ("model", "drain_s", "ends"),
    [(SLOW, "60", ["ok", "ok", "ok"]), (SLOWER, "0", ["ok", "truncated"]), (STUCK, "0", ["ok", "truncated"])],
)
def test_a_gateway_told_to_stop_in_the_second_round(
    gateway: MakeGateway, upstream: ScriptedUpstream, tmp_path: Path, model: str, drain_s: str, ends: list[str]
) -> None:
    setup = setup_with(upstream, tmp_path, "scripted")
    stopping = gateway(upstream=upstream, commands=[["import_setup", str(setup)]], BRIDGE_DRAIN_S=drain_s)

    if model == SLOWER:
        begin_fast(upstream, model)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ask_once, stopping, model)
        upstream.wait_for(lambda truth: len(truth["attempts"]) == 2)
        status = stopping.stop()
        seen = running.result()

    assert status == 0
    is_finished = ends[-1] == "ok"
    assert (seen.is_broken, seen.ended_well) == (False, is_finished)
    assert is_finished or (seen.error and seen.error["type"] == "overloaded_error")
    records = assert_ledger_adds_up(stopping, upstream, ended_well={seen.request_id: is_finished})
    assert [record["state"] for record in records] == ends
