"""Each attempt sends what its own upstream model takes, and says so."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from keys.entries import ModelEntry
from tests.translator.core.test_compaction import LOG, loop
from tests.translator.test_playground import goal
from translator.calls import Goal
from translator.core.anthropic.request import parse_request
from translator.core.compaction.summaries import Summary
from translator.core.errors import InvalidRequest
from translator.core.estimate import estimate_input_tokens
from translator.messages_call import MessagesCall


def a_model(window: int | None = 4_000, **facts: Any) -> ModelEntry:
    unknown = dict.fromkeys(("max_output_tokens", "vision", "pdf", "reasoning"))
    return ModelEntry(
        **{"id": 1, "upstream_id": 1, "name": "m", "context_window": window, "tools": "native", **unknown, **facts}
    )


def to(dialect: str, model: ModelEntry | None, **more: Any) -> Goal:
    return replace(goal(dialect), model=model, **more)


def a_call(turns: int = 40, *, may_compact: bool = True) -> MessagesCall:
    body = {"model": "m", "max_tokens": 50, "messages": loop(turns, words=LOG)}
    request = parse_request(orjson.dumps(body))
    return MessagesCall(
        request,
        size=1,
        request_id="req_1",
        session_id=None,
        estimate=estimate_input_tokens(request),
        headers=(),
        may_compact=may_compact,
    )


@pytest.mark.parametrize(
    ("dialect", "key"), [("openai_chat", "messages"), ("openai_responses", "input"), ("anthropic", "messages")]
)
def test_old_messages_are_left_out_in_every_dialect(dialect: str, key: str) -> None:
    whole = a_call().prepare(to(dialect, a_model(compaction="off", window=None)), ())
    prepared = a_call().prepare(to(dialect, a_model(compaction="trim")), ())

    assert len(orjson.loads(prepared.body)[key]) < len(orjson.loads(whole.body)[key]) - 20
    assert "The gateway left out messages 2 to" in prepared.body.decode()
    assert prepared.told["bridge-compaction"].startswith("trim; covered=")
    assert prepared.notes[0] == "compaction_trim"
    assert prepared.estimate is not None
    assert prepared.estimate < 3_200
    assert (whole.told, whole.estimate) == ({}, None)


@pytest.mark.parametrize(
    "model", [None, a_model(None), a_model(100_000, compaction="trim"), a_model(None, compaction="trim")]
)
def test_else_the_messages_go_as_they_are(model: ModelEntry | None) -> None:
    prepared = a_call().prepare(to("anthropic", model), ())

    assert orjson.loads(prepared.body)["messages"] == a_call().request.messages
    assert (prepared.told, prepared.estimate) == ({}, None)


@pytest.mark.parametrize("call", [a_call(may_compact=False), a_call(3 * 40)])
def test_what_does_not_fit_is_refused_with_the_size_of_the_whole(call: MessagesCall) -> None:
    small = a_model(window=60 if call.request.messages[80:] else 4_000, compaction="trim")
    with pytest.raises(InvalidRequest) as refused:
        call.prepare(to("anthropic", small), ())

    assert refused.value.reason == f"prompt is too long: {call.history.whole} tokens > {small.context_window} maximum"


def test_a_model_that_is_told_of_tools_in_words_is_full_earlier() -> None:
    native, told = (a_model(4_400, compaction="trim", tools=tools) for tools in ("native", "emulated"))

    assert a_call(28).history.plan(native, 1.0) is None
    assert a_call(28).history.plan(told, 1.0) is not None


def test_a_fallback_that_takes_the_whole_gets_the_whole_and_learns_from_it() -> None:
    call = a_call()
    call.history.expect(call.history.plan(a_model(compaction="trim"), 1.0))
    assert call.estimate < call.history.whole

    prepared = call.prepare(to("anthropic", a_model(100_000)), ())

    assert len(orjson.loads(prepared.body)["messages"]) == 81
    assert prepared.estimate == call.history.whole


def test_a_summary_is_sent_once_it_is_known_and_names_its_receipt() -> None:
    call, model = a_call(), a_model(compaction="summary")
    early = call.history.plan(model, 1.0)
    assert early is not None
    assert early.wanted is not None
    summary = Summary(
        covered=early.wanted.covered, fingerprint=early.wanted.fingerprint, text="The disk.", request_id="req_2"
    )

    call.history.use([summary])
    prepared = call.prepare(to("openai_chat", model), ())

    assert "The disk." in prepared.body.decode()
    assert prepared.told["bridge-compaction"].endswith("; receipt=/v1/summaries/req_2")
    assert prepared.notes[:1] == ("compaction_summary",)
    assert "compaction_by_req_2" in prepared.notes
