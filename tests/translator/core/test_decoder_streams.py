"""Streams of chat/completions upstreams, each quirk under its name."""

import pytest

from tests.translator.core.upstreams import DONE, chunk, decode, decoder, finish, sse, summary, usage
from translator.core.events import MessageStart, Ping, StreamFailed, TextDelta, UsageSource
from translator.core.openai_chat.decoder import TRUNCATED

ROLE = chunk(role="assistant", content="")
HELLO = chunk(content="Hello")
WORLD = chunk(content=", world.")
TEXT = {"blocks": ["Hello, world."], "stop": "end_turn"}


def api_error(text: str) -> dict[str, object]:
    return {"error": ("api_error", text)}


STREAMS = {
    "text, finish, usage, done": (sse(ROLE, HELLO, WORLD, finish(), usage(), DONE), TEXT),
    "text in the first chunk": (sse(chunk(role="assistant", content="Hello, world."), finish(), DONE), TEXT),
    "text in the last chunk": (
        sse(HELLO, {"choices": [{"delta": {"content": ", world."}, "finish_reason": "stop"}]}),
        TEXT,
    ),
    "no done mark": (sse(ROLE, HELLO, WORLD, finish(), usage()), TEXT),
    "no finish reason": (sse(ROLE, HELLO, WORLD, DONE), TEXT),
    "done in lower case with spaces": (sse(HELLO, WORLD, " [done] "), TEXT),
    "a frame too long after the end": (sse(HELLO, WORLD, finish(), DONE) + b"x" * 1_100_000, TEXT),
    "done twice, and more after it": (sse(HELLO, WORLD, finish(), DONE, DONE, chunk(content="x")), TEXT),
    "two finishes": (sse(HELLO, WORLD, finish(), finish(), DONE), TEXT),
    "a finish after a vague one": (sse(HELLO, finish("tool_calls"), finish("length"), DONE), {"blocks": ["Hello"], "stop": "max_tokens"}),
    "text after the finish": (sse(HELLO, finish(), WORLD, DONE), TEXT),
    "azure's first chunk without choices": (sse({"choices": [], "prompt_filter_results": []}, HELLO, WORLD, finish(), DONE), TEXT),
    "fields that are null": (
        sse(chunk(role=None, content="Hello, world.", tool_calls=None, function_call=None, refusal=None, reasoning_content=None, audio=None), finish()),
        TEXT,
    ),
    "a delta that is null": (sse({"choices": [{"delta": None}]}, HELLO, WORLD, finish()), TEXT),
    "a message instead of a delta": (sse({"choices": [{"message": {"content": "Hello, world."}, "finish_reason": "stop"}]}), TEXT),
    "the sum of the deltas in a last message": (
        sse(HELLO, WORLD, {"choices": [{"message": {"content": "Hello, world."}, "finish_reason": "stop"}]}, DONE), TEXT,
    ),
    "choices beyond the first": (
        sse(HELLO, {"choices": [{"index": 1, "delta": {"content": "no"}}]}, {"choices": [{"index": 1}, {"index": 0, "delta": {"content": ", world."}}]}, finish()),
        TEXT,
    ),
    "choices of the wrong kind": (sse({"choices": {"a": 1}}, {"choices": [1]}, HELLO, {"choices": [[]]}, WORLD, finish()), TEXT),
    "a frame of the wrong kind": (sse("[1]", "1", "null", HELLO, WORLD, finish()), TEXT),
    "one broken frame": (sse(HELLO, "{broken", WORLD, finish(), DONE), TEXT),
    "broken frames apart": (sse("{", "{", HELLO, "{", "{", WORLD, finish(), DONE), TEXT),
    "empty frames": (sse("", HELLO, "", " ", "", WORLD, finish(), DONE), TEXT),
    "comments": (b": OPENROUTER PROCESSING\n\n" + sse(HELLO) + b": x\n" + sse(WORLD, finish()), TEXT),
    "crlf": (sse(HELLO, WORLD, finish(), DONE).replace(b"\n", b"\r\n"), TEXT),
    "lines of json": (sse(HELLO, WORLD, finish()).replace(b"data: ", b"").replace(b"\n\n", b"\n"), TEXT),
    "no blank lines": (sse(HELLO, WORLD, finish(), DONE).replace(b"\n\n", b"\n"), TEXT),
    "no end of the last line": (sse(HELLO, WORLD, finish()).rstrip(), TEXT),
    "bytes that are not utf-8": (
        sse(chunk(content="a?b"), finish()).replace(b"?", b"\xff"), {"blocks": ["a\ufffdb"], "stop": "end_turn"},
    ),
    "an emoji cut in two": (
        b'data: {"choices":[{"delta":{"content":"go \\ud83d"}}]}\n\ndata: {"choices":[{"delta":{"content":"\\ude80!"}}]}\n\n' + sse(finish()),
        {"blocks": ["go 🚀!"], "stop": "end_turn"},
    ),
    "half an emoji": (
        b'data: {"choices":[{"delta":{"content":"go \\ud83d"}}]}\n\ndata: {"choices":[{"delta":{"content":"\\ude80\\ude80!"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\ndata: {"choices":[{"delta":{"content":"x\\ud83dx"}}]}\n\n' + sse(finish()),
        {"blocks": ["go 🚀\ufffd!x\ufffdx"], "stop": "end_turn"},
    ),
    "white space before the text is kept": (sse(chunk(content="\n"), chunk(content="\n x"), finish()), {"blocks": ["\n\n x"], "stop": "end_turn"}),
    "white space alone is no text": (sse(chunk(content="\n"), chunk(content=" "), finish()), {"blocks": [], "stop": "end_turn"}),
    "white space within the text is kept": (sse(HELLO, chunk(content="\n"), chunk(content=" "), finish()), {"blocks": ["Hello\n "], "stop": "end_turn"}),
    "nothing but a finish": (sse(ROLE, finish()), {"blocks": [], "stop": "end_turn"}),
    "a refusal": (sse(chunk(refusal="I will "), chunk(refusal="not."), finish()), {"blocks": ["I will not."], "stop": "refusal"}),
    "a refusal after text": (sse(HELLO, chunk(refusal=" No."), finish()), {"blocks": ["Hello No."], "stop": "end_turn"}),
    "speech with its transcript": (sse(chunk(audio={"transcript": "Hello, world."}), finish()), TEXT),
    "an image": (sse(chunk(content="", images=[{"type": "image_url"}]), finish()), {"blocks": ["[image returned by model omitted]"], "stop": "end_turn"}),
    "content in parts": (
        sse(chunk(content=[{"type": "text", "text": "Hello"}, ", ", {"type": "reference", "reference_ids": [1]}, 7, {"type": "output_text", "text": "world."}]), finish()),
        TEXT,
    ),
    "a part that is not in a list": (sse(chunk(content={"type": "text", "text": "Hello"}), WORLD, finish()), TEXT),
    "text instead of a delta": (sse({"choices": [{"text": "Hello, world."}]}, finish()), TEXT),
    "news of no importance": (sse({"message": "queued", "status": "processing", "code": 0}, HELLO, {"base_resp": {"status_code": 0}}, WORLD, finish()), TEXT),
    "content of the wrong kind": (sse(chunk(content={"a": 1}), chunk(content=7), HELLO, WORLD, finish()), TEXT),
}  # fmt: skip

FAILURES = {
    "nothing at all": (b"", api_error("upstream closed the stream without an answer")),
    "comments only": (b": hi\n\n: hi\n\n", api_error("upstream closed the stream without an answer")),
    "done only": (sse(DONE), api_error("upstream returned no choices")),
    "usage and done only": (sse(usage(), DONE), api_error("upstream returned no choices")),
    "role and done only": (sse(ROLE, DONE), api_error(TRUNCATED)),
    "role only": (sse(ROLE), api_error(TRUNCATED)),
    "cut in the text": (sse(ROLE, HELLO), api_error(TRUNCATED)),
    "cut in a frame": (sse(ROLE, HELLO) + b'data: {"choices":[{"finish_rea', api_error(TRUNCATED)),
    "three broken frames in a row": (sse(HELLO, "{", "{", "{", finish()), api_error("upstream sent malformed data")),
    "a third broken frame at the end": (sse(HELLO, "{", "{") + b'{"choices":[{"x', api_error("upstream sent malformed data")),
    "html": (b"<!doctype html><html><body>Sign in</body></html>", api_error("upstream closed the stream without an answer")),
    "a frame too long": (sse(HELLO) + b"data: " + b"x" * 2_000_000, api_error("upstream sent a frame longer than the limit")),
    "a frame too long at the end": (sse(HELLO) + (b"data: " + b"x" * 600_000 + b"\n") * 2, api_error("upstream sent a frame longer than the limit")),
    "a frame too long in its last line": (sse(HELLO) + b"data: " + b"x" * 600_000 + b"\ndata: " + b"x" * 600_000, api_error("upstream sent a frame longer than the limit")),
    "an error object": (sse(HELLO, {"error": {"message": "boom", "type": "server_error"}}, DONE), api_error("boom")),
    "an error string": (sse(HELLO, {"error": "boom"}), api_error("boom")),
    "an error of the choice": (sse(HELLO, {"choices": [{"delta": {"content": "x"}, "error": {"code": 502, "message": "boom"}}]}), api_error("boom")),
    "an error beside a finish": (
        sse(HELLO, {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"code": 429, "message": "slow down"}}),
        {"error": ("rate_limit_error", "slow down")},
    ),
    "an error without a wrapper": (sse(HELLO, {"object": "error", "message": "boom", "code": 500}), api_error("boom")),
    "an error with a code": (sse(HELLO, {"code": "InternalError", "message": "boom"}, DONE), api_error("boom")),
    "an error with a status": (sse(HELLO, {"status": 503, "message": "boom"}, DONE), {"error": ("overloaded_error", "Overloaded: boom")}),
    "a detail": (sse(HELLO, {"detail": "boom"}, DONE), api_error("boom")),
    "minimax's error": (sse(HELLO, {"choices": None, "base_resp": {"status_code": 1000, "status_msg": "boom"}}, DONE), api_error("boom")),
    "an error event": (sse(HELLO) + b'event: error\ndata: {"message":"boom"}\n\n', api_error("boom")),
    "an error event with an error object": (sse(HELLO) + b'event: error\ndata: {"error":{"message":"boom"}}\n\n', api_error("boom")),
    "an error event of plain text": (sse(HELLO) + b"event: error\ndata: boom\n\n", api_error("boom")),
    "groq's error": (sse(HELLO, {"x_groq": {"error": "boom"}, "choices": []}), api_error("boom")),
    "a finish that is an error": (sse(HELLO, finish("error"), DONE), api_error("upstream failed to finish the answer")),
    "a finish for lack of capacity": (
        sse(HELLO, finish("insufficient_system_resource"), DONE),
        {"error": ("overloaded_error", "Overloaded: upstream ran out of capacity")},
    ),
    "a web page as an error": (sse({"error": "<html><body>502</body></html>"}), api_error("upstream returned 500")),
}  # fmt: skip


@pytest.mark.parametrize("quirk", STREAMS | FAILURES)
@pytest.mark.parametrize("step", [None, 1, 7])
def test_a_stream(quirk, step):
    stream, expected = (STREAMS | FAILURES)[quirk]
    if len(stream) > 1_000_000 and step:
        step = 60_000

    assert summary(decode(stream, step=step)) == expected


@pytest.mark.parametrize("quirk", FAILURES)
def test_a_failure_is_the_last_event(quirk):
    events = decode(FAILURES[quirk][0])

    assert isinstance(events[-1], StreamFailed)
    assert [type(event) for event in events].count(StreamFailed) == 1


def test_a_lenient_upstream_may_end_without_saying_so():
    assert summary(decode(sse(HELLO, WORLD), lambda: decoder(lenient_eof=True))) == TEXT
    assert "error" in summary(decode(sse(ROLE), lambda: decoder(lenient_eof=True)))


def test_the_message_starts_with_the_first_choice():
    subject = decoder()

    assert subject.feed(b": hi\n\n" + sse({"choices": []})) == []
    assert subject.feed(sse(ROLE)) == [MessageStart(usage=None)]
    assert subject.start() == []


def test_the_message_can_be_started_before():
    subject = decoder()

    assert subject.start() == [MessageStart(usage=None)]
    assert subject.feed(sse(ROLE)) == []
    subject.fail(decode(b"")[-1].error)
    assert subject.start() == []


def test_counts_of_the_first_chunk_are_told_at_the_start():
    first = chunk(content="x") | {"usage": {"prompt_tokens": 7, "completion_tokens": 0}}
    start = decoder().feed(sse(first))[0]

    assert start.usage.input_tokens == 7
    assert start.usage.source is UsageSource.PARTIAL


def test_an_error_before_the_first_choice_comes_alone():
    assert [type(event) for event in decode(sse({"error": "boom"}))] == [StreamFailed]


def test_comments_become_pings_once_the_message_has_started():
    subject = decoder()

    assert subject.feed(b": hi\n") == []
    subject.feed(sse(HELLO))
    assert subject.feed(b": hi\n: hi\n") == [Ping()]
    assert subject.feed(b"\n") == []


def test_it_is_known_when_only_the_end_is_missing():
    subject = decoder()
    subject.feed(sse(HELLO))
    assert not subject.is_finishing
    subject.feed(sse(finish()))
    assert subject.is_finishing
    assert not subject.is_done
    subject.finish()

    assert subject.is_done
    assert subject.feed(sse(HELLO)) == subject.finish() == []


def test_output_is_what_a_client_would_show():
    subject = decoder()
    subject.feed(sse(ROLE, chunk(content=" ")))
    assert not subject.has_output
    subject.feed(sse(HELLO))

    assert subject.has_output


def test_a_failure_found_elsewhere_ends_the_message():
    subject = decoder()
    subject.feed(sse(HELLO))
    error = decode(b"")[-1].error

    assert subject.fail(error) == [StreamFailed(error=error)]
    assert subject.fail(error) == []
    assert subject.usage.source is UsageSource.ESTIMATED


def test_repairs_are_noted():
    subject = decoder()
    subject.feed(sse("{", HELLO, "{"))

    assert subject.notes == ("bad_frame",)


def test_secrets_are_not_echoed():
    subject = decoder(secrets=("topsecret",))
    events = subject.feed(sse({"error": "bad key topsecret"}))

    assert events[0].error.message == "bad key [redacted]"


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])
def test_a_stop_sequence_that_the_upstream_names_is_told(field):
    from tests.translator.core.upstreams import answer

    make = lambda: decoder(answer(stop_sequences=("###", "END")))  # noqa: E731
    last = decode(sse(HELLO, finish(**{field: "END"})), make)[-2]
    assert (last.stop_reason, last.stop_sequence) == ("stop_sequence", "END")

    for other in (128008, None, "<|im_end|>"):
        last = decode(sse(HELLO, finish(**{field: other})), make)[-2]
        assert (last.stop_reason, last.stop_sequence) == ("end_turn", None)


def test_text_deltas_pass_one_by_one():
    events = decode(sse(HELLO, WORLD, finish()))

    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello", ", world."]
