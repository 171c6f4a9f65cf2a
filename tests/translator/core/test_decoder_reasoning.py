"""Reasoning in each of its dialects, shown or not."""

import base64
import json

import pytest

from tests.translator.core.upstreams import DONE, answer, chunk, decode, decoder, finish, message, sse, summary, tool
from translator.core.events import BlockStart, BlockStop, SignatureDelta, ThinkingBlock, ThinkingDelta
from translator.core.openai_chat.thinking import signed_state

SHOWN = {"blocks": [("thinking", "We count."), "4"], "stop": "end_turn"}
END = (chunk(content="4"), finish(), DONE)


def detail(text=None, **more):
    return {"type": "reasoning.text", "text": text, "format": "unknown", "index": 0} | more


STREAMS = {
    "reasoning_content": sse(chunk(reasoning_content="We "), chunk(reasoning_content="count."), *END),
    "reasoning": sse(chunk(reasoning="We "), chunk(reasoning="count."), *END),
    "reasoning_text": sse(chunk(reasoning_text="We "), chunk(reasoning_text="count."), *END),
    "thinking": sse(chunk(thinking="We "), chunk(thinking="count."), *END),
    "reasoning_details": sse(chunk(reasoning_details=[detail("We ")]), chunk(reasoning_details=[detail("count.")]), *END),
    "a summary in the details": sse(chunk(reasoning_details=[{"type": "reasoning.summary", "summary": "We count."}]), *END),
    "the same three ways": sse(
        chunk(content="", reasoning="We ", reasoning_content="We ", reasoning_details=[detail("We ")]),
        chunk(content="", reasoning="count.", reasoning_content="count.", reasoning_details=[detail("count.")]),
        *END,
    ),
    "one of two is empty": sse(chunk(reasoning_content="", reasoning="We count."), chunk(content="4", reasoning_content=""), finish()),
    "reasoning and text in one chunk": sse(chunk(content="4", reasoning="We count."), finish()),
    "parts": sse(
        chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "We "}, {"type": "reference"}, 7]}]),
        chunk(content=[{"type": "thinking", "thinking": "count."}, {"type": "text", "text": "4"}]),
        finish(),
    ),
    "line breaks between": sse(chunk(reasoning="We count."), chunk(reasoning="", content=""), *END),
    "fields of the wrong kind": sse(chunk(reasoning={"a": 1}, reasoning_details=7), chunk(reasoning_details=[7, {"text": 7}]), chunk(reasoning="We count."), *END),
}  # fmt: skip


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("step", [None, 1])
def test_reasoning_is_thinking(dialect, step):
    assert summary(decode(STREAMS[dialect], step=step)) == SHOWN


@pytest.mark.parametrize("dialect", STREAMS)
def test_thinking_is_not_shown_unasked(dialect):
    make = lambda: decoder(answer(show_thinking=False))  # noqa: E731
    events = decode(STREAMS[dialect], make)

    assert summary(events) == {"blocks": ["4"], "stop": "end_turn"}
    assert events[-2].usage.output_tokens >= 2


@pytest.mark.parametrize("dialect", STREAMS)
def test_thinking_may_be_its_signature_only(dialect):
    make = lambda: decoder(answer(omit_thinking_text=True))  # noqa: E731
    events = decode(STREAMS[dialect], make)
    signature = next(event.signature for event in events if isinstance(event, SignatureDelta))

    assert summary(events) == {"blocks": [("thinking", ""), "4"], "stop": "end_turn"}
    assert signed_state(signature)["thinking"] == "We count."


def test_a_thinking_block_ends_with_one_signature():
    events = decode(STREAMS["reasoning"])

    assert events[1:6] == [
        BlockStart(block=ThinkingBlock()),
        ThinkingDelta(thinking="We "),
        ThinkingDelta(thinking="count."),
        SignatureDelta(signature="gw1." + base64.urlsafe_b64encode(b"{}").decode().rstrip("=")),
        BlockStop(),
    ]


OTHERS = {
    "reasoning only": (sse(chunk(reasoning="We count."), finish("length")), {"blocks": [("thinking", "We count.")], "stop": "max_tokens"}),
    "reasoning after text": (
        sse(chunk(content="a"), chunk(reasoning="b"), chunk(content="c"), finish()),
        {"blocks": ["a", ("thinking", "b"), "c"], "stop": "end_turn"},
    ),
    "reasoning, then a call": (
        sse(chunk(reasoning="b"), chunk(content="\n\n"), chunk(tool_calls=[tool("{}", name="Read", index=0, id="x")]), finish()),
        {"blocks": [("thinking", "b"), ("x", "Read", {})], "stop": "tool_use"},
    ),
    "white space is no reasoning": (sse(chunk(reasoning="\n\n"), chunk(content="4"), finish()), {"blocks": ["4"], "stop": "end_turn"}),
    "white space before reasoning is kept": (sse(chunk(reasoning="\n"), chunk(reasoning="b"), finish()), {"blocks": [("thinking", "\nb")], "stop": "end_turn"}),
}  # fmt: skip


@pytest.mark.parametrize("rule", OTHERS)
@pytest.mark.parametrize("step", [None, 1])
def test_order(rule, step):
    stream, expected = OTHERS[rule]

    assert summary(decode(stream, step=step)) == expected


def details_in(events):
    signatures = [event.signature for event in events if isinstance(event, SignatureDelta)]
    return [signed_state(signature).get("reasoning_details") for signature in signatures]


def test_details_travel_in_the_signature_with_their_pieces_joined():
    stream = sse(
        chunk(reasoning="We ", reasoning_details=[detail("We ", signature=None)]),
        chunk(reasoning="count.", reasoning_details=[detail("count.", signature="s", format=None)]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "abc", "index": 1, "id": "r1"}]),
        *END,
    )

    assert details_in(decode(stream)) == [
        [
            {"type": "reasoning.text", "text": "We count.", "signature": "s", "format": "unknown", "index": 0},
            {"type": "reasoning.encrypted", "data": "abc", "index": 1, "id": "r1"},
        ]
    ]


def test_details_without_text_get_a_block_of_their_own():
    encrypted = chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "abc"}])
    events = decode(sse(encrypted, *END))

    assert summary(events) == {"blocks": [("thinking", ""), "4"], "stop": "end_turn"}
    assert details_in(events) == [[{"type": "reasoning.encrypted", "data": "abc"}]]


def test_details_within_a_call_follow_it():
    encrypted = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "abc"}]}
    call = chunk(tool_calls=[tool('{"a"', name="Read", index=0, id="x")])
    rest = chunk(tool_calls=[tool(":1}", index=0)], **encrypted)
    events = decode(sse(call, rest, finish()))

    assert summary(events)["blocks"] == [("x", "Read", {"a": 1}), ("thinking", "")]
    assert details_in(events) == [[{"type": "reasoning.encrypted", "data": "abc"}]]


def test_details_are_not_kept_for_thinking_that_is_not_shown():
    encrypted = chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "abc"}])
    make = lambda: decoder(answer(show_thinking=False))  # noqa: E731

    assert summary(decode(sse(encrypted, *END), make)) == {"blocks": ["4"], "stop": "end_turn"}


def test_details_too_large_are_not_kept():
    large = chunk(reasoning_details=[detail("x" * 600_000)])
    events = decode(sse(large, large, *END))

    assert details_in(events) == [None]


def test_details_nested_too_deep_are_not_kept():
    deep = '{"choices":[{"delta":{"reasoning":"b","reasoning_details":[{"a":' + "[" * 400 + "]" * 400 + "}]}}]}"

    assert details_in(decode(sse(deep, *END))) == [None]


def test_a_whole_answer_has_thinking_first():
    body = message("4", reasoning_content="We count.")

    assert summary(decoder().feed_whole(body)) == SHOWN
    assert json.loads(body)["choices"]


TAGS = {
    "a block at the start": (["<think>We count.</think>4"], SHOWN),
    "tags in pieces": (["\n<", "th", "ink>", "\nWe co", "unt.</", "thi", "nk>", "\n\n", "4"], SHOWN),
    "a tag that is not one": (["<thin", "g>4"], {"blocks": ["<thing>4"], "stop": "end_turn"}),
    "an end tag that is not one": (["<think>a</thi", "s>b</think>4"], {"blocks": [("thinking", "a</this>b"), "4"], "stop": "end_turn"}),
    "a block further on": (["See: <think>x</think>"], {"blocks": ["See: <think>x</think>"], "stop": "end_turn"}),
    "a second block": (["<think>We count.</think>4", "<think>"], {"blocks": [("thinking", "We count."), "4<think>"], "stop": "end_turn"}),
    "no end": (["<think>We ", "count.</th"], {"blocks": [("thinking", "We count.</th")], "stop": "end_turn"}),
    "a beginning only": (["<thi"], {"blocks": ["<thi"], "stop": "end_turn"}),
    "much white space": ([" " * 40, " " * 40, "<think>4"], {"blocks": [" " * 80 + "<think>4"], "stop": "end_turn"}),
}  # fmt: skip


@pytest.mark.parametrize("rule", TAGS)
@pytest.mark.parametrize("step", [None, 1])
def test_think_tags_are_read_where_the_profile_says_so(rule, step):
    texts, expected = TAGS[rule]
    stream = sse(*[chunk(content=text) for text in texts], finish())

    assert summary(decode(stream, lambda: decoder(think_tags=True), step=step)) == expected
    assert summary(decode(stream, step=step))["blocks"] == ["".join(texts)]


def test_a_call_ends_the_search_for_tags():
    call = chunk(tool_calls=[tool("{}", name="Read", index=0, id="x")])
    events = decode(sse(chunk(content="<thi"), call, finish()), lambda: decoder(think_tags=True))

    assert summary(events)["blocks"] == ["<thi", ("x", "Read", {})]
