"""Frames are the same however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.core import sse
from translator.core.errors import UpstreamProtocolError
from translator.core.sse import SSEDecoder, SSEFrame

MESSAGE = [SSEFrame("", b'{"a":1}')]

STREAMS = {
    "a frame ends at a blank line": (b'data: {"a":1}\n\n', MESSAGE),
    "crlf ends a line": (b'data: {"a":1}\r\n\r\n', MESSAGE),
    "cr alone ends a line": (b'data: {"a":1}\r\r', MESSAGE),
    "line ends may be mixed": (b'data: {"a":1}\r\n\n', MESSAGE),
    "only one space after the colon is cut": (b"data:  x\n\n", [SSEFrame("", b" x")]),
    "no space is needed": (b'data:{"a":1}\n\n', MESSAGE),
    "a bom before the first line is cut": (b'\xef\xbb\xbfdata: {"a":1}\n\n', MESSAGE),
    "a bom before a later line is kept": (b'data: {"a":1}\n\n\xef\xbb\xbfdata: 2\n\n', MESSAGE),
    "data lines are joined": (b"data: {\ndata: }\n\n", [SSEFrame("", b"{\n}")]),
    "an empty data line counts": (b"data: x\ndata\ndata:\n\n", [SSEFrame("", b"x\n\n")]),
    "comments are ignored": (b': hi\n\n:\ndata: {"a":1}\n: hi\n\n', MESSAGE),
    "the event has a name": (b"event: error\ndata: x\n\n", [SSEFrame("error", b"x")]),
    "a name lasts for one frame": (b"event: a\n\ndata: x\n\n", [SSEFrame("", b"x")]),
    "a broken name is repaired": (b"event:\xff\ndata: x\n\n", [SSEFrame("\ufffd", b"x")]),
    "id, retry and unknown fields are ignored": (b'id: 1\nretry: 2\nfoo\ndata: {"a":1}\n\n', MESSAGE),
    "a line of json is a frame": (b'{"a":1}\n{"a":1}\n', MESSAGE * 2),
    "json inside a frame is no frame": (b'data: x\n{"a":1}\n\n', [SSEFrame("", b"x")]),
    "complete data lines are frames of their own": (
        b'data: {"a":1}\ndata: {"a":1}\ndata: [DONE]\n\n',
        [*MESSAGE, *MESSAGE, SSEFrame("", b"[DONE]")],
    ),
    "u+2028 is no line end": (b'data: "\xe2\x80\xa8\xc2\x85\x0b\x0c"\n\n', [SSEFrame("", b'"\xe2\x80\xa8\xc2\x85\x0b\x0c"')]),
    "an unfinished frame is dropped": (b"data: x\n", []),
    "nothing is nothing": (b"\n\r\n\n", []),
}  # fmt: skip


def check_decodes(stream: bytes, expected: list[SSEFrame]) -> None:
    """Whole, and one byte at a time: the split must not matter."""
    assert SSEDecoder().feed(stream) == expected

    decoder = SSEDecoder()
    assert [f for i in range(len(stream)) for f in decoder.feed(stream[i : i + 1])] == expected


@pytest.mark.parametrize("rule", STREAMS)
def test_frames(rule):
    check_decodes(*STREAMS[rule])


def test_a_cr_at_the_end_of_a_read_ends_the_line_at_once():
    decoder = SSEDecoder()

    assert decoder.feed(b"data: x\r\n\r") == [SSEFrame("", b"x")]
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\ndata: y\n\n") == [SSEFrame("", b"y")]


def test_comments_are_counted():
    decoder = SSEDecoder()
    decoder.feed(b": a\n:\n\n: b\n")

    assert decoder.comments == 3


@pytest.mark.parametrize("stream", [b"data: [DONE]", b"data: [DONE]\n", b"data: [DONE]\n\n"])
def test_the_end_of_the_stream_completes_a_complete_frame(stream):
    decoder = SSEDecoder()

    assert decoder.feed(stream) + decoder.close() == [SSEFrame("", b"[DONE]")]
    assert decoder.close() == []


@pytest.mark.parametrize("stream", [b"", b'data: {"a":', b"data: 1\n", b"data: {\ndata: 1"])
def test_the_end_of_the_stream_completes_nothing_else(stream):
    decoder = SSEDecoder()

    assert decoder.feed(stream) + decoder.close() == []


LIMIT = 100
TOO_LONG = {
    "a line": b"x" * (LIMIT + 1) + b"\n",
    "a line without an end": b"x" * (LIMIT + 1),
    "a frame of short lines": b"data: 0123456789\n" * 10,
}


@pytest.mark.parametrize("kind", TOO_LONG)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_too_long_is_an_error_after_what_came_before(monkeypatch, kind, step):
    monkeypatch.setattr(sse, "MAX_FRAME_BYTES", LIMIT)
    stream = b"data: x\n\n" + TOO_LONG[kind] + b"data: y\n\n"
    decoder = SSEDecoder()
    frames = []

    with pytest.raises(UpstreamProtocolError):  # noqa: PT012  # the frames before the error count too
        for i in range(0, len(stream) + step, step):
            frames += decoder.feed(stream[i : i + step])

    assert frames == [SSEFrame("", b"x")]
    assert decoder.error is not None
    assert decoder.close() == []


@pytest.mark.parametrize("line", [b"data:" + b"x" * (LIMIT - 5), b"data: " + b"x" * (LIMIT - 6)])
def test_the_limit_itself_is_allowed(monkeypatch, line):
    monkeypatch.setattr(sse, "MAX_FRAME_BYTES", LIMIT)

    assert len(SSEDecoder().feed(line + b"\n\n")) == 1


PIECES = st.sampled_from(
    [b"data: ", b"data", b":", b"{}", b'{"a":"\xc3\xa9"}', b"\n", b"\r", b"\r\n", b"\n\n", b"[DONE]", b"event: e", b"\xef\xbb\xbf", b" "]
)  # fmt: skip


@given(pieces=st.lists(PIECES | st.binary(max_size=4), max_size=30), cuts=st.lists(st.integers(1, 9), min_size=1))
def test_any_split_gives_the_same_frames(pieces, cuts):
    stream = b"".join(pieces)
    whole, split = SSEDecoder(), SSEDecoder()
    frames, at = [], 0
    while at < len(stream):
        step = cuts[at % len(cuts)]
        frames += split.feed(stream[at : at + step])
        at += step

    assert frames + split.close() == whole.feed(stream) + whole.close()
    assert split.comments == whole.comments


def test_a_frame_that_dribbles_in_is_read_in_linear_time():
    decoder = SSEDecoder()
    frames = [f for _ in range(1_000_000) for f in decoder.feed(b"x")]

    assert frames == []
