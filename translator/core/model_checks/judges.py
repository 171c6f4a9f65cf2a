"""Judges: what was heard of a check's request -> a verdict, and a sentence about what was seen.

They are lenient on words and strict on the wire: how a model puts it is its own affair, but blocks, stop reasons and
counts are what clients act on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from translator.core.events import UsageSource
from translator.core.model_checks.heard import Heard

__all__ = [
    "THINK_TAGS",
    "Finding",
    "Judge",
    "Verdict",
    "answers_in_pieces",
    "answers_whole",
    "calls_both",
    "calls_nothing",
    "calls_tool",
    "counted_by_upstream",
    "ends_at_limit",
    "ends_at_sequence",
    "keeps_text",
    "says",
    "sees",
    "thinks",
]

SHOWN_CHARS_MAX = 80
THINK_TAG = "<think>"
#: What a text looks like whose UTF-8 was read as something else.
MANGLED = ("\ufffd", "Ð", "ã\x81", "ðŸ")

THINK_TAGS = 'Set "think_tags" to true in the upstream\'s profile overrides: its thinking stands within the text.'
SAID_TO_TAKE_NONE = 'If it does take images, set "takes images" of the upstream model to yes.'


class Verdict(StrEnum):
    PASSED = "passed"
    PARTLY = "partly"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of a check."""

    verdict: Verdict
    #: What was seen, as the beginning of a sentence.
    seen: str
    #: What to set in Bridge; empty where the check's own advice holds, or where nothing is to be set.
    advice: str = ""


Judge = Callable[[Heard], Finding]


def answers_whole(heard: Heard) -> Finding:
    """Want text, and a good end."""
    if not heard.text:
        return _failed("the answer holds no text")
    if heard.text.lstrip().startswith(THINK_TAG):
        return _partly("its thinking stands within the text", THINK_TAGS)
    if heard.stop_reason not in ("end_turn", "max_tokens"):
        return _failed(f"the answer ended with {heard.stop_reason}")
    return _passed(_said(heard))


def answers_in_pieces(heard: Heard) -> Finding:
    """Want several pieces of text, and the stream's end."""
    if not heard.is_ended:
        return _failed("the stream broke off without message_stop")
    if not heard.text:
        return _failed("the stream holds no text")
    if heard.text_deltas < 2:
        return _partly("the whole text came in one piece")
    return _passed(f"the text came in {heard.text_deltas} pieces")


def counted_by_upstream(heard: Heard) -> Finding:
    """Want the upstream's own count of all tokens."""
    match heard.usage_source:
        case UsageSource.UPSTREAM:
            return _passed("the upstream counted the tokens")
        case UsageSource.PARTIAL:
            return _partly("the upstream counted a part of the tokens, and Bridge estimated the rest")
        case None:
            return _partly("Bridge doesn't tell who counted the tokens")
        case _:
            return _failed("the upstream counted no tokens, so Bridge estimated them")


def ends_at_limit(heard: Heard) -> Finding:
    """Want the end that the limit of output tokens makes."""
    if heard.stop_reason == "max_tokens":
        return _passed("the answer was cut, and says so")
    return _failed(f"the answer ended with {heard.stop_reason}")


def ends_at_sequence(sequence: str) -> Judge:
    """Want the end that a stop sequence makes, without the sequence."""

    def judge(heard: Heard) -> Finding:
        if sequence in heard.text:
            return _failed("the text went on beyond the stop sequence")
        if (heard.stop_reason, heard.stop_sequence) == ("stop_sequence", sequence):
            return _passed("the text ended there")
        return _partly(f"the text ended, with {heard.stop_reason} and no word of a stop sequence")

    return judge


def calls_tool(name: str, arguments: Mapping[str, type]) -> Judge:
    """Want a call of the tool, with these arguments of these types."""

    def judge(heard: Heard) -> Finding:
        if not heard.calls:
            return _failed(f"no call came; {_said(heard)}")
        call = heard.calls[0]
        if call.get("name") != name:
            return _failed(f"a tool was called that is none: {_shortened(str(call.get('name')))}")
        if not _fits(call.get("input"), arguments):
            return _failed("the call's arguments don't fit the tool's schema")
        if heard.stop_reason != "tool_use":
            return _failed(f"a call came, but the answer ended with {heard.stop_reason}")
        return _passed("the tool was called, with arguments that fit")

    return judge


def calls_nothing(heard: Heard) -> Finding:
    """Want words and no call."""
    if heard.calls or heard.stop_reason == "tool_use":
        return _failed("a tool was called all the same")
    if not heard.text:
        return _failed("nothing came: no call, and no text either")
    return _passed("words came, and no call")


def calls_both(names: frozenset[str]) -> Judge:
    """Want calls of all the tools in one answer."""

    def judge(heard: Heard) -> Finding:
        called = {call.get("name") for call in heard.calls}
        if not called or heard.stop_reason != "tool_use":
            return _failed(f"{len(heard.calls)} calls came, and the answer ended with {heard.stop_reason}")
        if not names <= called:
            return _partly("one call came; the other would have to follow its result")
        return _passed("both calls came in one answer")

    return judge


def says(word: str) -> Judge:
    """Want the word somewhere in the text."""

    def judge(heard: Heard) -> Finding:
        return _passed(_said(heard)) if word in heard.text.casefold() else _failed(_said(heard))

    return judge


def sees(colour: str) -> Judge:
    """Want the colour of a picture."""

    def judge(heard: Heard) -> Finding:
        if "media_omitted" in heard.notes:
            return _failed("Bridge left the picture out: the model is said to take none", SAID_TO_TAKE_NONE)
        return says(colour)(heard)

    return judge


def thinks(heard: Heard) -> Finding:
    """Want a block of thinking that can be read."""
    if any(heard.thinking):
        return _passed("its thinking came as a block of its own")
    if heard.thinking:
        return _partly("it thought, and showed nothing of it")
    if THINK_TAG in heard.text:
        return _failed("its thinking stands within the text", THINK_TAGS)
    return _failed("no thinking came")


def keeps_text(*pieces: str) -> Judge:
    """Want texts back as they were sent."""

    def judge(heard: Heard) -> Finding:
        if any(mark in heard.text for mark in MANGLED):
            return _failed(f"its characters were mangled on the way: {_said(heard)}")
        if not all(piece in heard.text for piece in pieces):
            return _partly(_said(heard))
        return _passed("the line came back unharmed")

    return judge


def _fits(given: Any, wanted: Mapping[str, type]) -> bool:
    """Tell whether an input holds all that is wanted, and nothing else."""
    return (
        isinstance(given, dict)
        and given.keys() == wanted.keys()
        and all(type(given[name]) is kind for name, kind in wanted.items())
    )


def _said(heard: Heard) -> str:
    return f"it said “{_shortened(heard.text)}”" if heard.text.strip() else "no text came"


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


def _passed(seen: str) -> Finding:
    return Finding(verdict=Verdict.PASSED, seen=seen)


def _partly(seen: str, advice: str = "") -> Finding:
    return Finding(verdict=Verdict.PARTLY, seen=seen, advice=advice)


def _failed(seen: str, advice: str = "") -> Finding:
    return Finding(verdict=Verdict.FAILED, seen=seen, advice=advice)
