"""Answers of Responses upstreams, streamed and whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.test_stream_rules import check_inputs, check_keeps_the_rules
from tests.translator.core.upstreams import answer, encode, finish, message, sse, summary
from translator.core.events import Ping, SignatureDelta
from translator.core.openai_chat.thinking import signed_state
from translator.core.openai_responses.decoder import Decoder
from translator.core.switches import Profile


def decoder(**more) -> Decoder:
    return Decoder(answer(**more), profile=Profile(), new_id=lambda prefix: f"{prefix}_1")


def decode(stream: bytes, *, step: int | None = None, **more):
    subject = decoder(**more)
    step = step or max(1, len(stream))
    events = [e for at in range(0, len(stream), step) for e in subject.feed(stream[at : at + step])] + subject.finish()
    return [event for event in events if not isinstance(event, Ping)]


def event(type_: str, **more):
    return {"type": f"response.{type_}"} | more


def added(index: int, **item):
    return event("output_item.added", output_index=index, item=item)


def done(index: int, **item):
    return event("output_item.done", output_index=index, item=item)


def text(words: str, index: int = 0):
    return event("output_text.delta", output_index=index, delta=words)


def arguments(piece: str, index: int):
    return event("function_call_arguments.delta", output_index=index, delta=piece)


def ended(type_: str = "completed", **response):
    counts = {"input_tokens": 120, "output_tokens": 30, "total_tokens": 150}
    details = {"input_tokens_details": {"cached_tokens": 100}, "output_tokens_details": {"reasoning_tokens": 8}}
    return event(type_, response={"status": type_, "usage": counts | details} | response)


CREATED = (event("created", response={"id": "r", "status": "in_progress"}), event("in_progress", response={}))
MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "Read", "arguments": '{"path":"a"}'}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "We count."}], "encrypted_content": "abc", "status": None}  # fmt: skip
HELLO = {"blocks": ["Hello"], "stop": "end_turn"}
READ = {"blocks": [("call_a", "Read", {"path": "a"})], "stop": "tool_use"}
THOUGHT = {"blocks": [("thinking", "We count."), "Hello"], "stop": "end_turn"}

STREAMS = {
    "text": (sse(*CREATED, added(0, type="message"), text("Hel"), text("lo"), done(0, **MESSAGE), ended()), HELLO),
    "text without deltas": (sse(*CREATED, added(0, type="message"), done(0, **MESSAGE), ended()), HELLO),
    "a call": (
        sse(added(0, **CALL | {"arguments": ""}), arguments('{"path":', 0), arguments('"a"}', 0), done(0, **CALL), ended()),
        READ,
    ),
    "a call without deltas": (sse(added(0, **CALL | {"arguments": ""}), done(0, **CALL), ended()), READ),
    "a call that is only done": (sse(done(0, **CALL), ended()), READ),
    "all in the last event": (sse(*CREATED, ended(output=[REASONING, MESSAGE])), THOUGHT),
    "a call whose arguments are in the last event": (sse(added(0, **CALL | {"arguments": ""}), ended(output=[CALL])), READ),
    "all in the last event again": (sse(added(0, type="message"), text("Hello"), ended(output=[MESSAGE, CALL])), HELLO),
    "two calls": (
        sse(added(1, **CALL | {"arguments": ""}), arguments('{"path":"a"}', 1), added(2, **CALL | {"call_id": "call_b"}), arguments("{}", 2), done(2, **CALL | {"call_id": "call_b"}), ended()),
        {"blocks": [("call_a", "Read", {"path": "a"}), ("call_b", "Read", {})], "stop": "tool_use"},
    ),
    "reasoning, then text": (
        sse(
            *CREATED, added(0, type="reasoning"), event("reasoning_summary_part.added", summary_index=0),
            event("reasoning_summary_text.delta", output_index=0, delta="We count."), done(0, **REASONING), text("Hello", 1), ended(),
        ),
        THOUGHT,
    ),
    "reasoning in two parts": (
        sse(
            event("reasoning_summary_text.delta", output_index=0, delta="We"), event("reasoning_summary_part.added", summary_index=1),
            event("reasoning_summary_text.delta", output_index=0, delta="count."), done(0, **REASONING), text("Hello", 1), ended(),
        ),
        {"blocks": [("thinking", "We\n\ncount."), "Hello"], "stop": "end_turn"},
    ),
    "raw reasoning": (sse(event("reasoning_text.delta", output_index=0, delta="We count."), text("Hello", 1), ended()), THOUGHT),
    "reasoning without deltas": (sse(done(0, **REASONING), text("Hello", 1), ended()), THOUGHT),
    "reasoning without text": (sse(done(0, **REASONING | {"summary": []}), text("Hello", 1), ended()), {"blocks": [("thinking", ""), "Hello"], "stop": "end_turn"}),
    "reasoning that is of no use": (sse(done(0, type="reasoning", summary=[7]), text("Hello", 1), ended()), HELLO),
    "a refusal": (sse(event("refusal.delta", output_index=0, delta="No."), ended()), {"blocks": ["No."], "stop": "refusal"}),
    "a call whose arguments come at its end": (
        sse(added(0, **CALL | {"arguments": ""}), event("function_call_arguments.done", output_index=0, arguments=CALL["arguments"]), done(0, **CALL | {"arguments": ""}), ended()),
        READ,
    ),
    "a call whose arguments come twice": (
        sse(added(0, **CALL | {"arguments": ""}), arguments(CALL["arguments"], 0), event("function_call_arguments.done", output_index=0, arguments=CALL["arguments"]), done(0, **CALL), ended()),
        READ,
    ),
    "out of tokens": (sse(text("Hello"), ended("incomplete", incomplete_details={"reason": "max_output_tokens"})), HELLO | {"stop": "max_tokens"}),
    "a filter": (sse(text("Hello"), ended("incomplete", incomplete_details={"reason": "content_filter"})), HELLO | {"stop": "refusal"}),
    "another reason": (sse(text("Hello"), ended("incomplete", incomplete_details={"reason": "x"})), HELLO),
    "nothing": (sse(*CREATED, ended()), {"blocks": [], "stop": "end_turn"}),
    "other items and events": (
        sse(added(0, type="web_search_call"), event("web_search_call.searching"), done(0, type="web_search_call"), text("Hello", 1), event("output_text.done", text="Hello"), {"type": 7}, ended()),
        HELLO,
    ),
    "chat chunks": (sse({"choices": [{"delta": {"content": "Hello"}}]}, finish()), HELLO),
}  # fmt: skip

FAILURES = {
    "cut": (sse(*CREATED, text("Hello")), "api_error", "upstream closed the stream before finishing"),
    "created only": (sse(*CREATED), "api_error", "upstream closed the stream without an answer"),
    "an error event": (sse(text("Hello"), {"type": "error", "code": "rate_limit_exceeded", "message": "slow"}), "rate_limit_error", "slow"),
    "an error event with a name": (b'event: error\ndata: {"type":"error","message":"boom"}\n\n', "api_error", "boom"),
    "failed": (sse(text("Hello"), ended("failed", error={"code": "server_error", "message": "boom"})), "api_error", "boom"),
    "failed without words": (sse(text("Hello"), ended("failed")), "api_error", "upstream failed to finish the answer"),
    "failed without anything": (sse(text("Hello"), event("failed")), "api_error", "upstream failed to finish the answer"),
    "cancelled": (sse(text("Hello"), ended("cancelled")), "api_error", "upstream failed to finish the answer"),
    "canceled": (sse(text("Hello"), event("canceled")), "api_error", "upstream failed to finish the answer"),
    "broken arguments": (sse(added(0, **CALL), arguments('{"path":', 0), arguments("oops}", 0), ended()), "api_error", "upstream sent malformed tool arguments"),
}  # fmt: skip


@pytest.mark.parametrize("quirk", STREAMS)
@pytest.mark.parametrize("step", [None, 1])
def test_a_stream(quirk, step):
    stream, expected = STREAMS[quirk]

    assert summary(decode(stream, step=step)) == expected


@pytest.mark.parametrize("quirk", FAILURES)
def test_a_failure(quirk):
    stream, *expected = FAILURES[quirk]

    assert list(summary(decode(stream))["error"]) == expected


def test_usage():
    got = decode(STREAMS["text"][0])[-2].usage

    assert (got.input_tokens, got.cache_read_tokens, got.output_tokens, got.thinking_tokens) == (20, 100, 30, 8)
    assert got.source == "upstream"


def test_reasoning_items_travel_in_the_signature():
    kept = {"type": "reasoning", "id": "rs_1", "encrypted_content": "abc", "summary": REASONING["summary"]}
    events = decode(sse(done(0, **REASONING), done(1, **REASONING), done(2, **CALL), done(3, **REASONING), ended()))
    states = [signed_state(event.signature) for event in events if isinstance(event, SignatureDelta)]

    assert states == [{"reasoning_items": [kept]}] * 3


def test_reasoning_within_a_call_follows_it():
    stream = sse(added(0, **CALL | {"arguments": ""}), arguments('{"a"', 0), done(1, **REASONING | {"summary": []}), arguments(":1}", 0), ended())  # fmt: skip

    assert summary(decode(stream))["blocks"] == [("call_a", "Read", {"a": 1}), ("thinking", "")]


def test_reasoning_is_not_shown_unasked():
    assert summary(decode(STREAMS["reasoning, then text"][0], show_thinking=False)) == HELLO


def test_items_too_large_are_not_kept():
    large = REASONING | {"encrypted_content": "x" * 600_000}
    stream = sse(added(0, **CALL | {"arguments": ""}), arguments('{"a"', 0), done(1, **large), done(2, **large), arguments(":1}", 0), ended())  # fmt: skip
    events = decode(stream)

    assert [signed_state(event.signature) for event in events if isinstance(event, SignatureDelta)] == [{}]


def whole(*items, **more) -> bytes:
    return json.dumps({"object": "response", "status": "completed", "output": list(items)} | more).encode()


WHOLE = {
    "text": (whole(MESSAGE), HELLO),
    "a call": (whole(CALL), READ),
    "everything": (
        whole(REASONING, MESSAGE, CALL),
        {"blocks": [("thinking", "We count."), "Hello", ("call_a", "Read", {"path": "a"})], "stop": "tool_use"},
    ),
    "a refusal": (whole({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}), {"blocks": ["No."], "stop": "refusal"}),
    "nothing": (whole(), {"blocks": [], "stop": "end_turn"}),
    "items of the wrong kind": (whole(7, {"type": "message", "content": 7}, {"type": 7}, MESSAGE), HELLO),
    "out of tokens": (whole(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}), HELLO | {"stop": "max_tokens"}),
    "failed": (whole(status="failed", error={"message": "boom"}), {"error": ("api_error", "boom")}),
    "an error": (b'{"error":{"message":"boom"}}', {"error": ("api_error", "boom")}),
    "output of the wrong kind": (b'{"object":"response","output":7}', {"blocks": [], "stop": "end_turn"}),
    "a chat answer": (message("Hello"), HELLO),
}  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_answer(kind):
    body, expected = WHOLE[kind]

    assert summary(decoder().feed_whole(body)) == expected


def test_what_follows_the_end_is_not_read():
    long = {"type": "message", "content": [{"type": "output_text", "text": "one###" + "x" * 300}]}

    assert summary(decoder(stop_sequences=("###",)).feed_whole(whole(long, MESSAGE))) == {"blocks": ["one"], "stop": "stop_sequence"}  # fmt: skip


JUNK = st.sampled_from([None, 7, [], {}, "x", [7], {"a": 1}])
EVENTS = st.sampled_from(
    [text("Hello"), text(" "), added(0, **CALL), arguments('{"a":', 0), arguments("1}", 0), done(0, **CALL), done(1, **REASONING), added(2, type="message"), ended(), ended("failed")]
) | st.fixed_dictionaries({"type": st.sampled_from(["response.output_text.delta", "response.output_item.added", "response.output_item.done", "response.function_call_arguments.delta", "response.completed", "error", 7])}, optional={"delta": JUNK, "item": JUNK | st.fixed_dictionaries({"type": st.sampled_from(["message", "function_call", "reasoning"])}, optional={"content": JUNK, "arguments": JUNK, "name": JUNK, "call_id": JUNK, "summary": JUNK, "encrypted_content": JUNK}), "output_index": JUNK, "response": JUNK})  # fmt: skip


@given(events=st.lists(EVENTS, max_size=15), show_thinking=st.booleans())
def test_any_events_make_a_stream_that_keeps_the_rules(events, show_thinking):
    subject = decoder(show_thinking=show_thinking)
    data = encode(subject.feed(sse(*events)) + subject.finish())

    check_keeps_the_rules(data)
    check_inputs(data)
