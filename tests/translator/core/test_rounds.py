"""An answer in rounds: its upstream cut it short, and goes on with it in a further answer."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.upstreams import DONE, answer, chunk, decoder, finish, message, sse, summary, tool, usage
from translator.core.anthropic.encoder import PING, Encoder
from translator.core.anthropic.message import render_message
from translator.core.anthropic.passthrough import MessageReader
from translator.core.events import Event, MessageDelta, Ping, StopReason, UsageSource
from translator.core.exchange import Passed, Translated
from translator.core.openai_chat.decoder import Decoder
from translator.core.openai_chat.errors import protocol_error

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "note": {"type": "string"}}}
FAILURE = protocol_error("boom")


def going_on(rounds: int = 3, *, limit: int | None = 1000, think_tags: bool = False, **more: Any) -> Decoder:
    context = answer(continue_rounds=rounds, message_limit=limit, max_tokens=limit, **more)
    return decoder(context, secrets=("sk-1",), think_tags=think_tags)


def emulating(**more: Any) -> Decoder:
    return going_on(tools=frozenset({"Read"}), emulated_tools={"Read": SCHEMA}, **more)


def part(*deltas: dict[str, Any], reason: str | None = "length", tokens: int = 10) -> bytes:
    return sse(*(chunk(**delta) for delta in deltas), finish(reason), usage(20, tokens), DONE)


def told(*texts: str, reason: str | None = "length", tokens: int = 10) -> bytes:
    return part(*({"content": text} for text in texts), reason=reason, tokens=tokens)


def in_rounds(subject: Decoder, streams: Sequence[bytes], *, steps: Sequence[int] = ()) -> list[Event]:
    """Feed one stream after the other for as long as the decoder wants more, and give up after the last."""
    events: list[Event] = []
    for number, stream in enumerate(streams):
        if number:
            assert subject.wants_more
            subject.resume()
        step = steps[number] if number < len(steps) else len(stream)
        for at in range(0, len(stream), step):
            events += subject.feed(stream[at : at + step])
        events += subject.finish()
    if subject.wants_more or subject.round_error:
        events += subject.give_up()
    return [event for event in events if not isinstance(event, Ping)]


CALL = '<tool_call>\n{"name": "Read", "arguments": {"path": "a.txt", "note": "one two"}}\n</tool_call>'
READ = ("toolu_1", "Read", {"path": "a.txt", "note": "one two"})
CASES: dict[str, tuple[Callable[[], Decoder], list[bytes], Any, str]] = {
    "a text": (going_on, [told("The quick "), told("brown "), told("fox", reason="stop")], ["The quick brown fox"], "end_turn"),
    "what is repeated": (
        going_on, [told("The quick brown "), told("quick brown ", "fox", reason="stop")], ["The quick brown fox"], "end_turn",
    ),
    "what seems to be repeated": (
        going_on, [told("The quick brown fox"), told("quick", reason="stop")], ["The quick brown foxquick"], "end_turn",
    ),
    "no round is left": (lambda: going_on(1), [told("The "), told("quick")], ["The quick"], "max_tokens"),
    "off": (lambda: going_on(0), [told("The ")], ["The "], "max_tokens"),
    "never asked": (going_on, [told("The ")], ["The "], "max_tokens"),
    "nothing is left": (going_on, [told("The ", tokens=937)], ["The "], "max_tokens"),
    "no limit": (lambda: going_on(limit=None), [told("The "), told("quick", reason="stop")], ["The quick"], "end_turn"),
    "a round adds nothing": (going_on, [told("The quick brown"), told("quick brown", reason="stop")], ["The quick brown"], "max_tokens"),
    "a round says nothing": (going_on, [told("The quick"), part(reason="stop")], ["The quick"], "max_tokens"),
    "no text at all": (going_on, [part({"reasoning": "Hm"})], [("thinking", "Hm")], "max_tokens"),
    "nothing but space": (going_on, [told(" \n")], [], "max_tokens"),
    "thinking after text": (going_on, [part({"content": "A"}, {"reasoning": "Hm"})], ["A", ("thinking", "Hm")], "max_tokens"),
    "thinking of a later round": (
        going_on,
        [
            part({"reasoning": "Hm"}, {"content": "The "}),
            part({"reasoning": "Again"}, {"reasoning_details": [{"type": "reasoning.text", "text": "x"}]},
                 {"reasoning_items": [{"id": "rs_1"}]}, {"content": "quick"}, reason="stop"),
        ],
        [("thinking", "Hm"), "The quick"], "end_turn",
    ),
    "tags of a later round": (
        lambda: going_on(think_tags=True),
        [told("<think>Hm</think>The <"), told("<think>Again</think>b>", reason="stop")],
        [("thinking", "Hm"), "The <b>"], "end_turn",
    ),
    "cut in its tags": (lambda: going_on(think_tags=True), [told("<think>Hm</th")], [("thinking", "Hm</th")], "max_tokens"),
    "a stop sequence over two rounds": (
        lambda: going_on(stop_sequences=("###",)), [told("The #"), told("## quick", reason="stop")], ["The "], "stop_sequence",
    ),
    "the beginning of one": (
        lambda: going_on(stop_sequences=("###",)), [told("#"), told("# quick", reason="stop")], ["## quick"], "end_turn",
    ),
    "a stop sequence": (lambda: going_on(stop_sequences=("###",)), [told("The ### quick")], ["The "], "stop_sequence"),
    "a native call": (
        going_on, [part({"content": "I read"}, {"tool_calls": [tool('{"path":', name="Read", id="a", index=0)]})],
        ["I read", ("a", "Read", {})], "max_tokens",
    ),
    "a native call in a later round": (
        going_on,
        [told("I read "), part({"content": "it"}, {"tool_calls": [tool("{}", name="Read", id="a", index=0)]}, reason="tool_calls")],
        ["I read it", ("a", "Read", {})], "tool_use",
    ),
    "a native call that breaks in a later round": (
        going_on,
        [told("I read "), part({"tool_calls": [tool('{"a": "x', name="Read", id="a", index=0)]}, reason="tool_calls")],
        ["I read ", ("a", "Read", {})], "max_tokens",
    ),
    "a refusal": (going_on, [part({"refusal": "No"})], ["No"], "max_tokens"),
    "a call in the text": (
        emulating, [told("So: " + CALL[:50]), told(CALL[50:], reason="stop")], ["So: ", READ], "tool_use",
    ),
    "cut in its mark": (emulating, [told(CALL[:7]), told(CALL[7:], reason="stop")], [READ], "tool_use"),
    "cut in its name": (emulating, [told(CALL[:25]), told(CALL[25:], reason="stop")], [READ], "tool_use"),
    "cut between two": (
        emulating, [told(CALL), told("\n" + CALL.replace("a.txt", "b"), reason="stop")],
        [READ, ("toolu_2", "Read", {"path": "b", "note": "one two"})], "tool_use",
    ),
    "a call that stays cut": (
        emulating, [told(CALL[:70])], [("toolu_1", "Read", {"path": "a.txt"})], "max_tokens",
    ),
    "a call that breaks in a later round": (
        emulating, [told(CALL[:70]), told(" th", reason="stop")], [("toolu_1", "Read", {"path": "a.txt"})], "max_tokens",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "streams", "blocks", "stop"), CASES.values(), ids=CASES)
def test_rounds(make: Callable[[], Decoder], streams: list[bytes], blocks: Any, stop: str):
    seen = summary(in_rounds(make(), streams))

    assert seen["stop"] == stop
    assert seen["blocks"] == blocks


@given(st.sampled_from(sorted(CASES)), st.lists(st.integers(1, 200), min_size=2, max_size=3))
def test_rounds_come_to_the_same_however_they_are_cut(name: str, steps: list[int]):
    make, streams, _, _ = CASES[name]

    assert summary(in_rounds(make(), streams, steps=steps)) == summary(in_rounds(make(), streams))


@given(st.integers(1, len(CALL) - 1), st.integers(1, len(CALL) - 1), st.integers(1, 50))
def test_a_call_comes_to_its_end_wherever_it_is_cut(first: int, second: int, step: int):
    low, high = sorted((first, second))
    parts = [part for part in ("I read: " + CALL[:low], CALL[low:high], CALL[high:]) if part]
    streams = [told(*text, reason="stop" if text is parts[-1] else "length") for text in parts]

    seen = summary(in_rounds(emulating(), streams, steps=[step] * 3))

    assert seen == {"blocks": ["I read: ", READ], "stop": "tool_use"}


def test_the_client_is_told_of_the_input_once_and_of_all_output():
    subject = going_on()
    thinking = {"completion_tokens_details": {"reasoning_tokens": 3}}
    first = sse(chunk(content="The "), finish("length"), usage(20, 10, **thinking), DONE)
    subject.feed(first)
    assert (subject.usage.input_tokens, subject.usage.output_tokens) == (20, 10)
    assert subject.tokens_left == 990
    subject.resume()
    assert subject.usage.source is UsageSource.UNKNOWN

    events = subject.feed(sse(chunk(content="quick"), finish("stop"), usage(40, 5, **thinking), DONE))

    [delta] = [event for event in events if isinstance(event, MessageDelta)]
    assert (delta.usage.input_tokens, delta.usage.output_tokens, delta.usage.thinking_tokens) == (20, 15, 6)
    assert (subject.usage.input_tokens, subject.usage.output_tokens) == (40, 5)


def test_a_round_that_is_not_counted_is_estimated_by_itself():
    subject = going_on()
    subject.feed(told("The " * 100, tokens=100))
    subject.resume()
    subject.feed(sse(chunk(content="quick brown!")))

    assert (subject.usage.output_tokens, subject.usage.input_tokens) == (3, 200)
    [delta] = [event for event in subject.give_up() if isinstance(event, MessageDelta)]
    assert (delta.usage.output_tokens, delta.stop_reason) == (103, StopReason.MAX_TOKENS)


def test_notes_are_those_of_the_round():
    subject = emulating()
    subject.feed(told(CALL.replace('"name"', "'name'")))
    assert subject.notes == ("tool_json_loose",)
    subject.resume()
    assert subject.notes == ()
    subject.feed(told(" Good.", reason="stop"))
    assert subject.notes == ()


FAILURES = {
    "an error in the stream": sse(chunk(content="quick"), {"error": {"message": "sk-second-secret is overloaded"}}),
    "an end without a finish": sse(chunk(content="quick")),
    "no answer": b"",
    "no choices": sse(DONE),
    "nothing in it": sse(chunk(role="assistant"), DONE),
    "a finish that is an error": sse(chunk(content="quick"), finish("error")),
}


@pytest.mark.parametrize("stream", FAILURES.values(), ids=FAILURES)
def test_what_fails_in_a_later_round_is_no_failure_of_the_answer(stream: bytes):
    subject = going_on()
    events = subject.feed(told("The "))
    subject.resume(secrets=("sk-second-secret",))

    events += subject.feed(stream) + subject.finish()

    assert subject.round_error is not None
    assert "second" not in subject.round_error.message
    assert subject.feed(told("more")) == []
    events += subject.give_up()
    seen = summary(events)
    assert (seen["stop"], "".join(seen["blocks"])) == ("max_tokens", "The quick" if b"quick" in stream else "The ")
    assert subject.round_error is None


@pytest.mark.parametrize("has_failed", [False, True])
def test_an_answer_that_waits_can_be_failed_from_outside(has_failed: bool):
    subject = going_on()
    events = subject.feed(told("The "))
    if has_failed:
        subject.resume()
        events += subject.finish()

    events += subject.fail(FAILURE)

    assert summary(events) == {"error": ("api_error", "boom")}
    assert not subject.wants_more
    assert subject.round_error is None
    assert subject.fail(FAILURE) == []


def test_comments_of_a_later_round_are_signs_of_life():
    subject = going_on()
    subject.feed(b": a\n\n" + told("The "))
    subject.resume()

    assert subject.feed(b": b\n\n") == [Ping()]
    assert subject.start() == []
    assert subject.usage.source is UsageSource.ESTIMATED


def exchange(subject: Decoder) -> Translated:
    encoder = Encoder(message_id="msg_1", model="m", request_id="req_1", input_estimate=100)

    def render(events: Sequence[Event]) -> bytes:
        return json.dumps(render_message(events, message_id="msg_1", model="m")).encode()

    return Translated(subject, encoder, render, ping=PING)


def test_the_pump_sees_an_answer_that_waits_and_goes_on():
    subject = going_on()
    answering = exchange(subject)
    shown = answering.feed(told("The "))
    assert (answering.wants_more, answering.is_complete, answering.error) == (True, False, None)
    assert (answering.stop_reason, answering.notes) == ("max_tokens", ("continued",))
    subject.resume()
    assert (answering.wants_more, answering.stop_reason, answering.notes) == (False, None, ())
    assert not answering.has_output
    assert not answering.is_finishing

    shown += answering.feed(told("quick", reason="stop"))

    assert (answering.is_complete, answering.stop_reason) == (True, "end_turn")
    assert shown.count(b"event: message_start") == shown.count(b"event: content_block_start") == 1
    assert answering.give_up() == b""


def test_the_pump_gives_up_a_round_that_failed():
    subject = going_on()
    answering = exchange(subject)
    answering.feed(told("The "))
    subject.resume()
    assert answering.finish() == b""
    assert answering.error is not None
    assert not answering.is_complete

    shown = answering.give_up()

    assert b'"stop_reason":"max_tokens"' in shown
    assert (answering.error, answering.is_complete) == (None, True)


@pytest.mark.parametrize("ends", ["well", "given up", "failed"])
def test_a_whole_answer_goes_on(ends: str):
    subject = going_on()
    answering = exchange(subject)
    counts = {"prompt_tokens": 20, "completion_tokens": 10}
    assert answering.whole(message("The ", reason="length", counts=counts)) == b""
    assert answering.wants_more
    if ends == "well":
        subject.resume()
        body = answering.whole(message("quick", counts=counts))
    else:
        if ends == "failed":
            subject.resume()
            assert answering.whole(b"[]") == b""
            assert answering.error is not None
        body = answering.give_up()

    whole = json.loads(body)
    text = "The quick" if ends == "well" else "The "
    assert whole["content"] == [{"type": "text", "text": text}]
    assert whole["stop_reason"] == ("end_turn" if ends == "well" else "max_tokens")
    assert whole["usage"]["output_tokens"] == (20 if ends == "well" else 10)


@pytest.mark.parametrize("rounds", [0, 1])
def test_the_text_so_far_is_kept_only_where_it_may_be_needed(rounds: int):
    subject = going_on(rounds)
    subject.feed(told("The ", "quick"))

    assert subject.text == ("The quick" if rounds else "")


def test_what_passes_untouched_is_never_gone_on_with():
    passed = Passed(MessageReader(request_id="req_1", model="m", input_estimate=100), ping=PING)

    assert (passed.wants_more, passed.give_up()) == (False, b"")
