"""Chat/completions streams that pass through: the bytes stay, and what they say is known."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.upstreams import DONE, chunk, finish, message, sse, tool, usage
from translator.core.errors import ClientError, ErrorType
from translator.core.events import UsageSource
from translator.core.openai_chat.observe import ChatReader

WHOLE = sse(chunk(role="assistant"), chunk(content="Hello"), finish(), usage(), DONE)
CUT = sse(chunk(role="assistant"), chunk(content="Hello"))


def reader(**more) -> ChatReader:
    return ChatReader(**{"model": "m", "input_estimate": 50} | more)


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_complete_stream_passes_unchanged(step):
    subject = reader()
    out = b"".join(subject.feed(WHOLE[at : at + step]) for at in range(0, len(WHOLE), step)) + subject.finish()

    assert out == WHOLE
    assert (subject.stop_reason, subject.error, subject.has_output, subject.is_done) == ("stop", None, True, True)
    assert (subject.usage.input_tokens, subject.usage.output_tokens, subject.usage.source) == (20, 5, "upstream")
    assert subject.notes == ()


@pytest.mark.parametrize(
    ("tier", "notes"),
    [("default", ()), ("flex", ("service_tier",)), ("priority", ("service_tier",)), ({}, ()), (None, ())],
)
def test_another_tier_than_the_standard_one_is_noted(tier, notes):
    subject = reader()
    subject.feed(sse(chunk(content="Hello") | {"service_tier": tier}, finish(), usage(), DONE))

    assert subject.notes == notes


def test_the_usage_chunk_is_hidden_from_who_did_not_ask_for_it():
    subject = reader(hides_usage=True)
    out = subject.feed(WHOLE)

    assert out == sse(chunk(role="assistant"), chunk(content="Hello"), finish(), DONE)
    assert subject.usage.source is UsageSource.UPSTREAM


def test_frames_of_several_lines_are_kept_beside_a_hidden_one():
    subject = reader(hides_usage=True)

    assert subject.feed(sse(usage()) + b'data: {\ndata: "a":1}\n\n') == b'data: {\ndata: "a":1}\n\n'


@pytest.mark.parametrize("kept", range(0, len(CUT), 31))
def test_a_cut_stream_ends_with_an_error(kept):
    subject = reader()
    out = subject.feed(CUT[:kept]) + subject.finish()

    frames = out.split(b"\n\n")
    assert json.loads(frames[-2].removeprefix(b"data: "))["error"]["type"] == "server_error"
    assert CUT.startswith(b"\n\n".join(frames[:-2]))
    assert subject.error.type is ErrorType.API
    assert subject.finish() == subject.feed(WHOLE) == b""


@pytest.mark.parametrize("end", [sse(finish()), sse(finish()).rstrip(), sse(DONE), sse(DONE).rstrip()])
def test_a_finish_or_a_done_mark_is_an_end(end):
    subject = reader()
    out = subject.feed(CUT + end) + subject.finish()

    assert out == CUT + end.rstrip() + b"\n\n"
    assert subject.error is None
    assert subject.is_done


def test_it_is_known_when_only_usage_is_missing():
    subject = reader()
    subject.feed(CUT)
    assert not subject.is_finishing
    subject.feed(sse(finish()))

    assert subject.is_finishing


def test_an_error_of_the_upstream_is_told_without_secrets():
    subject = reader(secrets=("topsecret",))
    error = sse({"error": {"code": 429, "message": "topsecret is busy"}})

    out = subject.feed(CUT + error + sse(DONE))
    assert out.startswith(CUT)
    assert json.loads(out[len(CUT) :].removeprefix(b"data: "))["error"]["message"] == "[redacted] is busy"
    assert (subject.error.type, subject.error.message) == ("rate_limit_error", "[redacted] is busy")
    assert subject.fail(subject.error) == b""
    assert subject.usage.source is UsageSource.ESTIMATED


def test_a_failure_found_elsewhere_ends_the_stream():
    subject = reader()
    out = subject.fail(ClientError(status=504, type=ErrorType.TIMEOUT, message="late"))

    assert json.loads(out.removeprefix(b"data: "))["error"]["message"] == "late"


def test_a_frame_too_long_ends_the_stream():
    assert reader().feed(b"data: " + b"x" * 2_000_000).startswith(b'data: {"error"')


USAGES = {
    "nothing yet": (b"", (0, 0, "unknown")),
    "text": (CUT, (50, 2, "estimated")),
    "reasoning and calls": (sse(chunk(reasoning="0123"), chunk(tool_calls=[tool("0123"), 7])), (50, 2, "estimated")),
    "counts so far": (sse(chunk(content="Hello") | usage(20, 1) | {"choices": []}, chunk(content="012345678")), (20, 3, "partial")),
    "groq": (sse(finish() | {"x_groq": {"usage": usage()["usage"]}}, DONE), (20, 5, "upstream")),
    "kimi": (sse(finish(usage=usage()["usage"]), DONE), (20, 5, "upstream")),
    "wrong kinds": (sse({"choices": 7, "usage": 7, "x_groq": 7}, {"choices": [7, {"delta": 7}]}, "7", "{"), (0, 0, "unknown")),
}  # fmt: skip


@pytest.mark.parametrize("kind", USAGES)
def test_usage(kind):
    stream, expected = USAGES[kind]
    subject = reader(max_tokens=100)
    subject.feed(stream)
    got = subject.usage

    assert (got.input_tokens, got.output_tokens, got.source) == expected


def test_a_whole_answer():
    subject = reader()
    subject.read_whole(b"\n" + message("Hello", counts=usage()["usage"]))

    assert (subject.stop_reason, subject.error, subject.has_output, subject.is_done) == ("stop", None, True, True)
    assert subject.usage.source is UsageSource.UPSTREAM


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[]", b'{"choices":[]}'])
def test_a_body_that_is_no_answer(body):
    subject = reader()
    subject.read_whole(body)

    assert subject.error.message == "upstream returned no choices"


def test_a_whole_error():
    subject = reader()
    subject.read_whole(b'{"error":{"code":429,"message":"slow"}}')

    assert subject.error.type is ErrorType.RATE_LIMIT


@pytest.mark.parametrize("shows_usage", [True, False])
def test_a_body_becomes_the_stream_that_was_asked_for(shows_usage):
    subject = reader(hides_usage=not shows_usage)
    out = subject.feed_body(message("Hello", counts=usage()["usage"]))

    assert [frame[6:] for frame in out.split(b"\n\n")][-2] == b"[DONE]"
    assert reshaped(out) == (message("Hello", counts=usage()["usage"] if shows_usage else None), shows_usage)
    assert (subject.stop_reason, subject.error, subject.is_done) == ("stop", None, True)


def test_a_body_with_calls_becomes_a_stream():
    calls = [CALL_A, CALL_B]
    out = reader().feed_body(message(None, reason="tool_calls", tool_calls=calls))

    [delta] = [json.loads(frame[6:])["choices"][0]["delta"] for frame in out.split(b"\n\n")[:-2]]
    assert delta["tool_calls"] == [{"index": 0} | CALL_A, {"index": 1} | CALL_B]


def test_a_stream_that_calls_itself_a_body_passes():
    assert reader().feed_body(WHOLE) == WHOLE


def reshaped(stream: bytes):
    """Put a stream together, and tell whether it has usage."""
    body = json.loads(reader().read_whole(stream))
    has_usage = "usage" in body
    return json.dumps(body | {"usage": body.get("usage")}).encode(), has_usage


def test_an_error_where_a_stream_was_asked_for_is_its_frame():
    for body in (
        b'{\n "error": {"code": 429, "message": "slow"}}',
        b'{"choices":[],"error":{"code":429,"message":"slow"}}',
    ):
        subject = reader()

        assert b"rate_limit" in subject.feed_body(body)
        assert subject.error.type is ErrorType.RATE_LIMIT


def test_a_body_that_nobody_can_read_is_an_error():
    deep = b'{"choices":[{"message":{"content":"x","a":' + b"[" * 500 + b"]" * 500 + b"}}]}"
    subject = reader()

    assert b"malformed" in subject.feed_body(deep)
    assert subject.error.message == "upstream sent malformed data"


CALL_A = {"id": "a", "type": "function", "function": {"name": "Read", "arguments": '{"x":1}'}}
CALL_B = {"id": "b", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
STREAMS_AS_BODIES = {
    "text": (sse(chunk(role="assistant"), chunk(content="Hel"), chunk(content="lo", role="assistant"), finish(), DONE), {"content": "Hello"}),
    "no done mark": (sse(chunk(content="Hello"), finish()), {"content": "Hello"}),
    "a comment first": (b": hi\n\n" + sse(chunk(content="Hello"), finish(), DONE), {"content": "Hello"}),
    "reasoning": (
        sse(chunk(reasoning_content="h", content=None), chunk(reasoning_content="m", details=[1]), chunk(details=[2]), chunk(content="Hello"), finish()),
        {"content": "Hello", "reasoning_content": "hm", "details": [1, 2]},
    ),
    "calls": (
        sse(
            chunk(tool_calls=[tool('{"x"', name="Read", index=0, id="a", type="function")]),
            chunk(tool_calls=[tool(":1}", index=0, name="Read", type="function"), 7]),
            chunk(tool_calls=[tool("{}", name="Bash", index=1, id="b", type="function")]),
            finish("tool_calls"),
        ),
        {"tool_calls": [CALL_A, CALL_B]},
    ),
    "calls without an index": (
        sse(chunk(tool_calls=[CALL_A, CALL_B]), chunk(tool_calls=[tool("")]), chunk(tool_calls=7), finish("tool_calls")),
        {"tool_calls": [CALL_A, CALL_B]},
    ),
    "odd chunks": (sse([], {"choices": 7}, {"choices": [7, {"delta": 7, "index": "x"}]}, chunk(content="Hello"), finish()), {"content": "Hello"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", STREAMS_AS_BODIES)
def test_a_stream_becomes_the_body_that_was_asked_for(kind):
    stream, expected = STREAMS_AS_BODIES[kind]
    subject = reader()

    body = json.loads(subject.read_whole(stream))

    assert body["object"] == "chat.completion"
    assert [choice["message"] for choice in body["choices"]] == [{"role": "assistant", "content": None} | expected]
    assert (body["choices"][0]["finish_reason"], subject.error) == (subject.stop_reason, None)


def test_several_choices_stay_apart():
    second = {"choices": [{"index": 1, "delta": {"content": "Bye"}, "finish_reason": "length"}]}
    body = json.loads(reader().read_whole(sse(chunk(content="Hello"), second, finish(), usage())))

    assert [choice["message"]["content"] for choice in body["choices"]] == ["Hello", "Bye"]
    assert [choice["finish_reason"] for choice in body["choices"]] == ["stop", "length"]
    assert body["usage"]["prompt_tokens"] == 20


def test_a_stream_in_place_of_a_body_may_fail():
    for stream, words in (
        (CUT, "upstream closed the stream before finishing"),
        (sse({"error": {"message": "boom"}}), "boom"),
        (b"data: " + b"x" * 2_000_000, "upstream sent a frame longer than the limit"),
    ):
        subject = reader()
        subject.read_whole(stream)

        assert subject.error.message == words


@given(data=st.binary(max_size=200) | st.sampled_from([WHOLE, CUT, message("x"), b'{"choices":[7,{"message":7}]}']))
def test_any_body_is_a_stream_or_an_error(data):
    assert reader().feed_body(data).endswith(b"\n\n")
    subject = reader()
    assert subject.read_whole(data) or subject.error


@given(data=st.lists(st.binary(max_size=20) | st.sampled_from([WHOLE, CUT, b"\n\n", sse(DONE)]), max_size=8))
def test_any_bytes_end_properly(data):
    subject = reader()
    out = b"".join(map(subject.feed, data)) + subject.finish()

    assert subject.is_done
    assert out.endswith(b"\n\n")
