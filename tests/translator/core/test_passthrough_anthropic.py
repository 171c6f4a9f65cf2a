"""Messages streams that pass through: the bytes stay, and what they say is known."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.test_encoder import STREAM
from translator.core.anthropic.passthrough import MessageReader
from translator.core.errors import ClientError, ErrorType
from translator.core.events import Usage, UsageSource

WHOLE = STREAM.encode()
CUT = WHOLE[: WHOLE.index(b"event: message_delta")]


def reader(**more) -> MessageReader:
    return MessageReader(**{"request_id": "req_1", "model": "m", "input_estimate": 50} | more)


def event(type_: str, **more) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (type_.encode(), json.dumps({"type": type_} | more).encode())


def start(**usage) -> bytes:
    return event("message_start", message={"usage": usage})


def delta(**usage) -> bytes:
    return event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage)


def text(words: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": words})


STOP = event("message_stop")


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_complete_stream_passes_unchanged(step):
    subject = reader()
    out = b"".join(subject.feed(WHOLE[at : at + step]) for at in range(0, len(WHOLE), step)) + subject.finish()

    assert out == WHOLE
    assert subject.is_done
    assert (subject.stop_reason, subject.error, subject.has_output) == ("tool_use", None, True)
    assert subject.usage == Usage(
        input_tokens=20, cache_read_tokens=100, output_tokens=30, thinking_tokens=7, source=UsageSource.UPSTREAM
    )


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_any_line_end_passes(end):
    stream = b"event: ping" + end[: len(end) // 2] + b'data: {"type":"ping"}' + end
    subject = reader()

    assert b"".join(subject.feed(stream[i : i + 1]) for i in range(len(stream))) == stream


@pytest.mark.parametrize("kept", range(0, len(WHOLE), 97))
def test_a_cut_stream_ends_with_an_error(kept):
    subject = reader()
    out = subject.feed(WHOLE[:kept]) + subject.finish()

    head, _, last = out.rpartition(b"event: error\n")
    assert WHOLE.startswith(head)
    assert head == b"" or head.endswith(b"\n\n")
    assert b'"message":"upstream closed the stream before finishing"},"request_id":"req_1"}\n\n' in last
    assert subject.error.type is ErrorType.API
    assert subject.finish() == subject.feed(WHOLE) == b""


def test_a_last_frame_without_its_blank_line_gets_it():
    subject = reader()

    assert subject.feed(WHOLE.rstrip()) + subject.finish() == WHOLE
    assert subject.error is None


def test_a_stop_reason_alone_is_no_end():
    subject = reader()
    subject.feed(start(input_tokens=1) + delta(output_tokens=2))
    assert subject.is_finishing
    subject.finish()

    assert subject.error is not None


def test_an_error_of_the_upstream_is_told_without_secrets():
    subject = reader(secrets=("topsecret",))
    error = event("error", error={"type": "overloaded_error", "message": "topsecret is busy"})

    out = subject.feed(CUT + b"data: 7\n\n" + error + STOP)
    assert out == (
        CUT + b'data: 7\n\nevent: error\ndata: {"type":"error","error":{"type":"overloaded_error",'
        b'"message":"Overloaded: [redacted] is busy"},"request_id":"req_1"}\n\n'
    )
    assert (subject.error.type, subject.error.message) == ("overloaded_error", "Overloaded: [redacted] is busy")
    assert subject.is_done
    assert subject.fail(subject.error) == b""


def test_a_failure_found_elsewhere_ends_the_stream():
    subject = reader()
    subject.feed(CUT + b"event: half")
    out = subject.fail(ClientError(status=504, type=ErrorType.TIMEOUT, message="late"))

    assert out.startswith(b"event: error\ndata: ")
    assert subject.error.message == "late"


def test_a_frame_too_long_ends_the_stream():
    subject = reader()
    out = b"".join(subject.feed(b"x" * 60_000) for _ in range(30))
    assert out.startswith(b"event: error")

    subject = reader()
    assert subject.feed(b"data: " + b"x" * 2_000_000 + b"\n\n").startswith(b"event: error")
    subject = reader()
    assert subject.feed(WHOLE[:50] + b"\n\ndata: " + b"x" * 2_000_000 + b"\n\n").startswith(b"event: error")


USAGES = {
    "nothing yet": (b"", (0, 0, 0, 0, "unknown")),
    "no counts": (text("01234567"), (50, 0, 0, 2, "estimated")),
    "the start only": (start(input_tokens=9, cache_read_input_tokens=3, output_tokens=1) + text("0123456789"), (9, 3, 0, 3, "partial")),
    "the end": (start(input_tokens=9, output_tokens=1) + text("0") + delta(output_tokens=30), (9, 0, 0, 30, "upstream")),
    "the end corrects the start": (
        start(input_tokens=9, output_tokens=1) + delta(input_tokens=8, cache_creation_input_tokens=4, output_tokens=30),
        (8, 0, 4, 30, "upstream"),
    ),
    "nulls": (start(input_tokens=9, output_tokens=1) + delta(input_tokens=None, output_tokens=30), (9, 0, 0, 30, "upstream")),
    "an end without counts": (start(input_tokens=9) + event("message_delta", delta={}), (9, 0, 0, 0, "partial")),
    "an end with zeros": (
        start(input_tokens=9, cache_read_input_tokens=3, output_tokens=1) + delta(input_tokens=0, cache_read_input_tokens=0, output_tokens=30),
        (9, 3, 0, 30, "upstream"),
    ),
    "a start with zeros": (start(input_tokens=0, output_tokens=0) + delta(input_tokens=9, output_tokens=30), (9, 0, 0, 30, "upstream")),
    "the end finds all of it cached": (
        start(input_tokens=9, output_tokens=1) + delta(input_tokens=0, cache_read_input_tokens=9, output_tokens=30),
        (0, 9, 0, 30, "upstream"),
    ),
    "an input of nothing": (start(input_tokens=0, output_tokens=0) + delta(output_tokens=30), (50, 0, 0, 30, "partial")),
    "an output of nothing": (start(input_tokens=9) + text("01234567") + delta(output_tokens=0), (9, 0, 0, 2, "partial")),
    "an answer of nothing": (start(input_tokens=9) + delta(output_tokens=0), (9, 0, 0, 0, "upstream")),
    "writes by their time": (
        start(input_tokens=9, output_tokens=1, cache_creation={"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 7}) + delta(output_tokens=30),
        (9, 0, 11, 30, "upstream"),
    ),
    "absurd": (start(input_tokens=-9, output_tokens="x") + delta(output_tokens=10**9), (0, 0, 0, 0, "unknown")),
}  # fmt: skip


@pytest.mark.parametrize("kind", USAGES)
def test_usage(kind):
    stream, expected = USAGES[kind]
    subject = reader()
    subject.feed(stream)
    got = subject.usage

    assert (got.input_tokens, got.cache_read_tokens, got.cache_write_tokens, got.output_tokens, got.source) == expected
    assert bool(got.notes) == (kind == "absurd")


@pytest.mark.parametrize(
    ("counts", "hour"),
    [
        (
            {
                "cache_creation_input_tokens": 11,
                "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 7},
            },
            7,
        ),
        ({"cache_creation_input_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 7}}, 5),
        ({"cache_creation_input_tokens": 11, "cache_creation": {"ephemeral_5m_input_tokens": 11}}, 0),
        ({"cache_creation_input_tokens": 11, "cache_creation": 7}, 0),
        ({"cache_creation_input_tokens": 11}, 0),
    ],
)
def test_what_is_written_for_an_hour_is_told_apart(counts, hour):
    subject = reader()
    subject.feed(start(input_tokens=9, **counts) + delta(output_tokens=3, **counts))

    assert subject.usage.cache_write_1h_tokens == hour


@pytest.mark.parametrize(
    ("usage", "notes"),
    [
        ({"service_tier": "standard", "server_tool_use": {"web_search_requests": 0}}, ()),
        ({"service_tier": "priority"}, ("service_tier",)),
        ({"service_tier": ["batch"], "server_tool_use": 7}, ()),
        ({"server_tool_use": {"web_search_requests": 2}}, ("server_tool_use",)),
    ],
)
def test_what_has_a_price_of_its_own_is_noted(usage, notes):
    subject = reader()
    subject.feed(start(input_tokens=9, output_tokens=1) + delta(output_tokens=3, **usage))

    assert subject.notes == notes


def test_what_is_no_event_passes_unread():
    stream = b": hi\n\ndata: {broken\n\ndata: 7\n\ndata: {}\n\n" + event("content_block_delta", delta=7) + event("message_start")  # fmt: skip
    subject = reader()

    assert subject.feed(stream) == stream
    assert not subject.has_output


MESSAGE = {
    "type": "message",
    "content": [{"type": "text", "text": "x"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 3},
}


def test_a_whole_message():
    subject = reader()
    subject.read_whole(json.dumps(MESSAGE).encode())

    assert (subject.stop_reason, subject.error, subject.has_output) == ("end_turn", None, True)
    assert (subject.usage.output_tokens, subject.usage.source) == (3, "upstream")


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[]", b'{"type":"message"}'])
def test_a_body_that_is_no_message(body):
    subject = reader()
    subject.read_whole(body)

    assert subject.error.message == "upstream returned no message"


def test_a_whole_error():
    subject = reader()
    subject.read_whole(b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}')

    assert subject.error.type is ErrorType.RATE_LIMIT


def test_a_body_where_a_stream_was_asked_for_is_a_stream_or_an_error():
    subject = reader()
    assert subject.feed_body(WHOLE) == WHOLE
    assert subject.error is None

    for body, words in (
        (b'{\n "type": "error",\n "error": {"type": "rate_limit_error", "message": "slow"}}', "slow"),
        (json.dumps(MESSAGE).encode(), "upstream returned no stream"),
        (b"", "upstream returned no message"),
    ):
        subject = reader()

        assert subject.feed_body(body).startswith(b"event: error\n")
        assert subject.error.message == words


@given(data=st.lists(st.binary(max_size=20) | st.sampled_from([WHOLE, CUT, b"\n\n", STOP, text("x")]), max_size=8))
def test_any_bytes_end_properly(data):
    subject = reader()
    out = b"".join(map(subject.feed, data)) + subject.finish()

    assert subject.is_done
    assert out.endswith(b"\n\n")
    assert (subject.error is None) == (b"message_stop" in out and b"event: error" not in out)
