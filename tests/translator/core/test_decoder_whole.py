"""Whole answers, each quirk under its name."""

import json

import pytest

from tests.translator.core.upstreams import DONE, answer, chunk, decoder, finish, message, sse, summary, tool
from translator.core.events import StreamFailed

HELLO = {"blocks": ["Hello"], "stop": "end_turn"}
READ = tool('{"path":"a"}', name="Read", id="call_a")


def whole(value):
    return json.dumps(value).encode()


def call(arguments, **more):
    return message(None, tool_calls=[tool(arguments, **{"name": "Read", "id": "x"} | more)], reason="tool_calls")


def one(input_, stop="tool_use"):
    return {"blocks": [("x", "Read", input_)], "stop": stop}


ANSWERS = {
    "text": (message("Hello"), HELLO),
    "no finish reason": (message("Hello", reason=None), HELLO),
    "blank lines first": (b"\n\n \n" + message("Hello"), HELLO),
    "a mark of the byte order first": (b"\xef\xbb\xbf" + message("Hello"), HELLO),
    "a part that is not in a list": (message({"type": "text", "text": "Hello"}), HELLO),
    "text instead of a message": (whole({"choices": [{"text": "Hello"}]}), HELLO),
    "a delta instead of a message": (whole({"choices": [{"delta": {"content": "Hello"}}]}), HELLO),
    "more than one choice": (whole({"choices": [{"index": 0, "message": {"content": "Hello"}}, {"index": 1, "message": {"content": "x"}}]}), HELLO),
    "a stream nobody asked for": (sse(chunk(content="Hello"), finish(), DONE), HELLO),
    "a stream that begins with a time": (b"\xef\xbb\xbfretry: 3000\n\n" + sse(chunk(content="Hello"), finish(), DONE), HELLO),
    "a stream that begins with a comment": (b": hi\n\n" + sse(chunk(content="Hello"), finish(), DONE), HELLO),
    "nothing": (message(""), {"blocks": [], "stop": "end_turn"}),
    "nothing, out of tokens": (message("", reason="length"), {"blocks": [], "stop": "max_tokens"}),
    "null": (message(None), {"blocks": [], "stop": "end_turn"}),
    "white space": (message(" \n"), {"blocks": [], "stop": "end_turn"}),
    "a refusal": (message(None, refusal="No."), {"blocks": ["No."], "stop": "refusal"}),
    "a filter": (message("I can", reason="content_filter"), {"blocks": ["I can"], "stop": "refusal"}),
    "parts": (message([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]), HELLO),
    "reasoning, text and a call": (
        message("Look.", reasoning="b", tool_calls=[READ]),
        {"blocks": [("thinking", "b"), "Look.", ("call_a", "Read", {"path": "a"})], "stop": "tool_use"},
    ),
    "calls that are null": (message("Hello", tool_calls=None), HELLO),
    "calls without ids": (
        message(None, tool_calls=[tool("{}", name="Read"), tool("{}", name="Read", id=""), tool("{}", name="Read", id="toolu_1")]),
        {"blocks": [("toolu_1", "Read", {}), ("toolu_2", "Read", {}), ("toolu_1_3", "Read", {})], "stop": "tool_use"},
    ),
    "calls with index 0 each": (
        message(None, tool_calls=[tool("{}", name="Read", id="a", index=0), tool("{}", name="Bash", id="b", index=0)]),
        {"blocks": [("a", "Read", {}), ("b", "Bash", {})], "stop": "tool_use"},
    ),
    "a legacy call": (message(None, function_call={"name": "Read", "arguments": "{}"}), {"blocks": [("toolu_1", "Read", {})], "stop": "tool_use"}),
    "arguments as an object": (call({"a": 1}), one({"a": 1})),
    "no arguments": (call(None), one({})),
    "empty arguments": (call(""), one({})),
    "arguments null": (call("null"), one({})),
    "arguments encoded twice": (call('"{\\"a\\":1}"'), one({"a": 1})),
    "arguments twice": (call('{"a":1}{"a":1}'), one({"a": 1})),
    "arguments cut": (call('{"a":1,"b":"x'), one({"INVALID_JSON": '{"a":1,"b":"x'})),
    "arguments cut for want of tokens": (
        message(None, tool_calls=[tool('{"a":1,"b":"x', name="Read", id="x")], reason="length"), one({"a": 1}, "max_tokens"),
    ),
    "arguments that are a list": (call("[1]"), one({"INVALID_JSON": "[1]"})),
    "arguments that are python": (call("{'a':1}"), one({"INVALID_JSON": "{'a':1}"})),
    "half an emoji": (b'{"choices":[{"message":{"content":"a\\ud83d"}}]}', {"blocks": ["a\ufffd"], "stop": "end_turn"}),
    "bytes that are not utf-8": (b'{"choices":[{"message":{"content":"a\xff"}}]}', {"blocks": ["a\ufffd"], "stop": "end_turn"}),
}  # fmt: skip

FAILURES = {
    "nothing": (b" \n", "api_error", "upstream returned an empty answer"),
    "html": (b"<!DOCTYPE html><html>Sign in</html>", "api_error", "upstream returned HTML"),
    "words": (b"Hello", "api_error", "upstream returned no JSON object"),
    "a list": (b"[]", "api_error", "upstream returned no JSON object"),
    "nested too deep": (b"[" * 100_000, "api_error", "upstream returned no JSON object"),
    "no choices": (b'{"id":"x"}', "api_error", "upstream returned no choices"),
    "empty choices": (b'{"choices":[],"usage":null}', "api_error", "upstream returned no choices"),
    "choices of the wrong kind": (b'{"choices":[7]}', "api_error", "upstream returned no choices"),
    "an error": (b'{"error":{"message":"no free worker","code":502}}', "api_error", "no free worker"),
    "an error by its status": (b'{"error":{"message":"slow down","code":429}}', "rate_limit_error", "slow down"),
    "an error by its word": (b'{"error":{"message":"bad","type":"invalid_request_error"}}', "invalid_request_error", "bad"),
    "an error of the choice": (b'{"choices":[{"error":{"message":"boom"}}]}', "api_error", "boom"),
    "an error without a wrapper": (b'{"object":"error","message":"boom","code":400}', "invalid_request_error", "boom"),
    "a detail": (b'{"detail":"boom"}', "api_error", "boom"),
    "a code and a word for it": (b'{"code":"InvalidParameter","message":"boom"}', "api_error", "boom"),
    "a code that is a status": (b'{"code":500,"msg":"boom","success":false}', "api_error", "boom"),
    "a message alone": (b'{"message":"boom"}', "api_error", "boom"),
    "minimax's": (b'{"choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}', "billing_error", "insufficient balance"),
    "minimax's, of nothing": (b'{"choices":null,"base_resp":{"status_code":0,"status_msg":"success"}}', "api_error", "upstream returned no choices"),
    "a finish that is an error": (message("x", reason="error"), "api_error", "upstream failed to finish the answer"),
}  # fmt: skip


@pytest.mark.parametrize("quirk", ANSWERS)
def test_an_answer(quirk):
    body, expected = ANSWERS[quirk]

    assert summary(decoder().feed_whole(body)) == expected


@pytest.mark.parametrize("quirk", FAILURES)
def test_a_failure(quirk):
    body, type_, text = FAILURES[quirk]
    subject = decoder()
    events = subject.feed_whole(body)

    assert isinstance(events[-1], StreamFailed)
    assert (events[-1].error.type, events[-1].error.message) == (type_, text)
    assert subject.is_done


def test_a_stop_sequence_is_told():
    subject = decoder(answer(stop_sequences=("<END>",)))
    body = whole({"choices": [{"message": {"content": "red"}, "finish_reason": "stop", "stop_reason": "<END>"}]})

    assert subject.feed_whole(body)[-2].stop_sequence == "<END>"
