"""Answers of models whose calls stand in their text: to blocks, stop reasons and notes."""

import pytest

from tests.translator.core.emulation.texts import SCHEMAS
from tests.translator.core.upstreams import (
    DONE,
    answer,
    chunk,
    decode,
    decoder,
    finish,
    message,
    sse,
    summary,
    tool,
    usage,
)
from translator.core.events import BlockStop, InputJsonDelta, TextDelta
from translator.core.openai_chat.tool_calls import MALFORMED
from translator.core.openai_responses.decoder import Decoder as ResponsesDecoder
from translator.core.switches import Profile

CALL = '<tool_call>\n{"name": "Read", "arguments": {"path": "a"}}\n</tool_call>'
HALF = CALL[: CALL.index('"a"') + 2]
LS = '<tool_call>{"name": "Bash", "arguments": {"command": "ls"}}</tool_call>'
A = ("toolu_1", "Read", {"path": "a"})


def emulated(**fields):
    return answer(**{"tools": frozenset(SCHEMAS), "emulated_tools": SCHEMAS} | fields)


def reader(context=None, **switches):
    return lambda: decoder(context or emulated(), **switches)


def said(*texts, reason="stop"):
    return sse(*(chunk(content=text) for text in texts), finish(reason), usage(), DONE)


STREAMS = {
    "a call": (said(CALL), {"blocks": [A], "stop": "tool_use"}),
    "a call in pieces": (said(*CALL), {"blocks": [A], "stop": "tool_use"}),
    "words and a call": (said("I read.\n\n", CALL), {"blocks": ["I read.\n\n", A], "stop": "tool_use"}),
    "line breaks around calls": (said("\n", CALL, "\n\n", LS, "\n"), {"blocks": [A, ("toolu_2", "Bash", {"command": "ls"})], "stop": "tool_use"}),
    "words only": (said("Hello <b>"), {"blocks": ["Hello <b>"], "stop": "end_turn"}),
    "a tool that nobody offered": (said(CALL.replace("Read", "Rm")), {"blocks": [CALL.replace("Read", "Rm")], "stop": "end_turn"}),
    "out of tokens in words": (said("Hello <tool_c", reason="length"), {"blocks": ["Hello <tool_c"], "stop": "max_tokens"}),
    "out of tokens in a call": (said(HALF, reason="length"), {"blocks": [("toolu_1", "Read", {})], "stop": "max_tokens"}),
    "out of tokens after a call": (said(CALL, reason="length"), {"blocks": [A], "stop": "max_tokens"}),
    "half a call": (said(HALF), {"error": ("api_error", MALFORMED)}),
    "an upstream that finds the call itself": (
        sse(chunk(content="Hm. <tool"), chunk(tool_calls=[tool('{"path":"a"}', name="Read", id="c1", index=0)]), finish("tool_calls")),
        {"blocks": ["Hm. <tool", ("c1", "Read", {"path": "a"})], "stop": "tool_use"},
    ),
    "results that the model makes up": (said(CALL, "<tool_response>x</tool_response>So."), {"blocks": [A], "stop": "tool_use"}),
}  # fmt: skip


@pytest.mark.parametrize(("stream", "told"), STREAMS.values(), ids=STREAMS)
def test_a_stream_becomes(stream, told):
    assert summary(decode(stream, reader())) == told
    assert summary(decode(stream, reader(), step=1)) == told


WHOLE = {
    "a call": (message(f"I read.\n{CALL}"), {"blocks": ["I read.\n", A], "stop": "tool_use"}),
    "words": (message("Hello"), {"blocks": ["Hello"], "stop": "end_turn"}),
    "out of tokens": (message(HALF, reason="length"), {"blocks": [("toolu_1", "Read", {})], "stop": "max_tokens"}),
    "half a call": (message(HALF), {"error": ("api_error", MALFORMED)}),
}


@pytest.mark.parametrize(("body", "told"), WHOLE.values(), ids=WHOLE)
def test_a_whole_answer_becomes(body, told):
    assert summary(decoder(emulated()).feed_whole(body)) == told


def test_words_and_arguments_are_sent_as_they_come():
    subject = decoder(emulated())
    texts = ["One ", "two.\n", '<tool_call>{"name": "Bash", "arguments": {"command": "ls', " -l"]
    events = [subject.feed(sse(chunk(content=text)))[-1] for text in texts]

    assert events == [
        TextDelta(text="One "),
        TextDelta(text="two.\n"),
        InputJsonDelta(partial_json='{"command":"ls'),
        InputJsonDelta(partial_json=" -l"),
    ]


def test_the_second_call_is_dropped_where_one_is_wanted():
    subject = decoder(emulated(parallel_tools=False))
    events = subject.feed(said(CALL, LS, " And then?"))

    assert summary(events) == {"blocks": [A, "And then?"], "stop": "tool_use"}
    assert subject.notes == ("parallel_tool_dropped",)


@pytest.mark.parametrize(
    ("text", "notes"), [("No.", ("tool_choice_ignored",)), (CALL, ()), (CALL.replace('"a"', "a"), ("tool_json_loose",))]
)
def test_a_demand_for_a_call_that_was_not_met_is_noted(text, notes):
    subject = decoder(emulated(must_call=True))
    subject.feed(said(text))

    assert subject.notes == notes


def test_a_demand_is_not_unmet_where_tokens_ran_out():
    subject = decoder(emulated(must_call=True))
    subject.feed(said("Well", reason="length"))

    assert subject.notes == ()


def test_what_is_held_is_output_too():
    """So that the clock for the first word stops, and no other attempt is made."""
    subject = decoder(emulated())

    subject.feed(sse(chunk(content="\n ")))
    assert not subject.has_output
    subject.feed(sse(chunk(content='{"arguments": {"path": "a')))
    assert subject.has_output


def test_thinking_is_no_place_for_calls():
    stream = sse(chunk(reasoning_content=f"I could say {CALL}"), chunk(content=CALL), finish())

    assert summary(decode(stream, reader()))["blocks"][1:] == [A]


def test_tags_of_thinking_are_no_place_for_calls():
    stream = said(f"<think>I could say {CALL}</think>\n\n{LS}")
    told = summary(decode(stream, reader(think_tags=True)))

    assert told["blocks"][1:] == [("toolu_1", "Bash", {"command": "ls"})]


def test_thinking_amid_a_call_waits_for_its_end():
    stream = sse(chunk(content=CALL[:40]), chunk(reasoning_content="Hm."), chunk(content=CALL[40:] + "."), finish())
    told = summary(decode(stream, reader()))

    assert told["blocks"][0] == A
    assert len(told["blocks"]) == 3


def test_a_stop_sequence_in_the_words_ends_them():
    told = summary(decode(said("One. END two.", CALL), reader(emulated(stop_sequences=("END",)))))

    assert told == {"blocks": ["One. "], "stop": "stop_sequence"}


def test_a_stop_sequence_within_a_call_cuts_it():
    text = '<tool_call>{"name": "Bash", "arguments": {"command": "ls END"}}'
    told = summary(decode(said(text), reader(emulated(stop_sequences=("END",)))))

    assert told == {"blocks": [("toolu_1", "Bash", {})], "stop": "max_tokens"}


def test_an_upstream_that_makes_up_results_for_long_is_left():
    subject = decoder(emulated())
    subject.feed(sse(chunk(content=CALL), chunk(content="<tool_response>" + "x" * 300)))

    assert subject.is_done
    assert "tool_response_invented" in subject.notes


def test_arguments_that_break_end_the_stream_at_once():
    subject = decoder(emulated())
    events = subject.feed(
        sse(chunk(content='<tool_call>{"name": "Read", "arguments": {"limit": 1, 5'), chunk(content="x"))
    )

    assert subject.is_done
    assert summary(events) == {"error": ("api_error", MALFORMED)}


def test_a_failure_amid_a_call_is_an_error():
    subject = decoder(emulated())
    events = subject.feed(sse(chunk(content=HALF))) + subject.feed(sse({"error": {"message": "broken"}}))

    assert not any(isinstance(event, BlockStop) for event in events)
    assert "error" in summary(events)


def test_calls_are_found_in_the_text_of_a_responses_upstream():
    texts = [{"type": "response.output_text.delta", "delta": piece} for piece in ("Hm. ", CALL[:30], CALL[30:])]
    subject = ResponsesDecoder(emulated(), profile=Profile(), new_id=lambda prefix: f"{prefix}_1")
    events = subject.feed(sse(*texts, {"type": "response.completed", "response": {"status": "completed"}}))

    assert summary(events) == {"blocks": ["Hm. ", A], "stop": "tool_use"}


def test_without_tools_the_text_is_left_alone():
    assert summary(decode(said(CALL)))["blocks"] == [CALL]
