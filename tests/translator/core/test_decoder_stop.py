"""Why an answer ended, and the stop sequences that the upstream leaves to the gateway."""

import pytest

from tests.translator.core.upstreams import DONE, answer, chunk, decode, decoder, finish, sse, summary, tool, usage
from translator.core.events import StopReason
from translator.core.openai_chat.finish import Finish, decide_stop, finish_named

CALL = chunk(tool_calls=[tool("{}", name="Read", index=0, id="x")])

WORDS = {
    "stop": "end_turn",
    "eos": "end_turn",
    "end_turn": "end_turn",
    "whatever": "end_turn",
    "tool_calls": "end_turn",
    "function_call": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "MAX_TOKENS": "max_tokens",
    "max_output_tokens": "max_tokens",
    "model_length": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "content_filter": "refusal",
    "content_filter: PROHIBITED_CONTENT": "refusal",
    "content_filtered": "refusal",
    "guardrail_intervened": "refusal",
    "sensitive": "refusal",
    "SAFETY": "refusal",
    "IMAGE_SAFETY": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "BLOCKLIST": "refusal",
    "SPII": "refusal",
    "RECITATION": "refusal",
    "refusal": "refusal",
}


@pytest.mark.parametrize("word", WORDS)
def test_each_word_of_an_upstream(word):
    assert summary(decode(sse(chunk(content="a"), finish(word))))["stop"] == WORDS[word]


@pytest.mark.parametrize(
    "word",
    ["error", "network_error", "abort", "MALFORMED_FUNCTION_CALL", "function_call_filter: MALFORMED_FUNCTION_CALL"],
)
def test_an_answer_that_the_upstream_gave_up_is_a_failure(word):
    events = decode(sse(chunk(content="a"), finish(word)))

    assert summary(events) == {"error": ("api_error", "upstream failed to finish the answer")}


@pytest.mark.parametrize("word", ["stop", "tool_calls", "function_call", "whatever", "end_turn"])
def test_a_call_is_why_an_answer_ends(word):
    assert summary(decode(sse(CALL, finish(word))))["stop"] == "tool_use"


@pytest.mark.parametrize(("word", "expected"), [("length", "max_tokens"), ("content_filter", "refusal")])
def test_unless_something_kept_it_from_its_end(word, expected):
    assert summary(decode(sse(CALL, finish(word))))["stop"] == expected


def test_a_refusal_is_explained():
    last = decode(sse(chunk(refusal="I will "), chunk(refusal="not."), finish()))[-2]
    assert last.stop_details == {"type": "refusal", "category": None, "explanation": "I will not."}

    last = decode(sse(chunk(content="a"), finish("content_filter")))[-2]
    assert last.stop_details == {"type": "refusal", "category": None, "explanation": None}

    last = decode(sse(chunk(content="a"), finish()))[-2]
    assert last.stop_details is None


def test_a_word_of_any_length_and_kind_is_one():
    assert finish_named("x" * 1000) is Finish.OTHER
    assert summary(decode(sse(chunk(content="a"), finish(7))))["stop"] == "end_turn"


def test_a_stop_sequence_found_here_counts_before_the_upstreams_word():
    given = {"has_calls": False, "is_refusal": False, "fired": "x"}

    assert decide_stop(Finish.CUT, is_cut_here=True, **given) is StopReason.STOP_SEQUENCE
    assert decide_stop(Finish.CUT, is_cut_here=False, **given) is StopReason.MAX_TOKENS
    assert decide_stop(Finish.OTHER, is_cut_here=False, **given) is StopReason.END_TURN


STOPS = ("###", "END", "")
TEXTS = {
    "at the end": (["one two ", "###"], "one two ", "###"),
    "in pieces": (["one two #", "#", "#"], "one two ", "###"),
    "within the text": (["one ### two END"], "one ", "###"),
    "the first of two": (["one END two ###"], "one ", "END"),
    "at the start": (["###"], "", "###"),
    "nearly": (["one ##", " two EN"], "one ## two EN", None),
    "nearly, then really": (["one ##", "## two"], "one ", "###"),
    "overlapping": (["EEND"], "E", "END"),
    "none": (["one ", "two"], "one two", None),
    "begun twice": (["one #a", "#b EE", "ND"], "one #a#b E", "END"),
}


@pytest.mark.parametrize("rule", TEXTS)
@pytest.mark.parametrize("step", [None, 1])
def test_text_is_cut_at_a_stop_sequence(rule, step):
    texts, shown, fired = TEXTS[rule]
    stream = sse(*[chunk(content=text) for text in texts], finish(), usage(), DONE)
    events = decode(stream, lambda: decoder(answer(stop_sequences=STOPS)), step=step)

    assert summary(events)["blocks"] == ([shown] if shown else [])
    assert events[-2].stop_sequence == fired
    assert events[-2].stop_reason == ("stop_sequence" if fired else "end_turn")
    assert events[-2].usage.output_tokens == 5


def test_an_upstream_that_writes_on_is_left():
    subject = decoder(answer(stop_sequences=STOPS))
    events = subject.feed(sse(chunk(content="one###"), chunk(content="x" * 150), chunk(content="x" * 150)))

    assert subject.is_done
    assert summary(events) == {"blocks": ["one"], "stop": "stop_sequence"}


def test_a_stream_that_ends_at_a_stop_sequence_is_complete():
    events = decode(sse(chunk(content="###")), lambda: decoder(answer(stop_sequences=STOPS)))

    assert summary(events) == {"blocks": [], "stop": "stop_sequence"}


def test_calls_after_a_stop_sequence_are_left_out():
    events = decode(sse(chunk(content="one###"), CALL, finish()), lambda: decoder(answer(stop_sequences=STOPS)))

    assert summary(events) == {"blocks": ["one"], "stop": "stop_sequence"}


def test_calls_before_a_stop_sequence_count():
    events = decode(sse(CALL, chunk(content="one###"), finish()), lambda: decoder(answer(stop_sequences=STOPS)))

    assert summary(events) == {"blocks": [("x", "Read", {}), "one"], "stop": "tool_use"}


def test_held_text_comes_before_a_call():
    events = decode(sse(chunk(content="one #"), CALL, finish()), lambda: decoder(answer(stop_sequences=STOPS)))

    assert summary(events)["blocks"] == ["one #", ("x", "Read", {})]


def test_tags_and_stop_sequences_go_together():
    stream = sse(chunk(content="<think>a ### b</think>one ###"), finish())
    events = decode(stream, lambda: decoder(answer(stop_sequences=STOPS), think_tags=True), step=1)

    assert summary(events) == {"blocks": [("thinking", "a ### b"), "one "], "stop": "stop_sequence"}
