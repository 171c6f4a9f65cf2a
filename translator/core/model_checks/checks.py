"""The checks: what each asks, how its answer is judged, and what to set where it fails.

Prompts leave no room for a choice, so that a weak model passes where the wire works. What a model must say is never in
its prompt where repeating the prompt would do.
"""

import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from struct import pack
from types import MappingProxyType
from typing import Any

from translator.core.model_checks import judges
from translator.core.model_checks.heard import Heard
from translator.core.model_checks.judges import Finding, Judge, Verdict

__all__ = ["CHECKS", "Check", "Need", "find_check", "judge", "one_colour_png"]

MAX_TOKENS = 300
#: Some upstreams take no smaller limit.
LEAST_TOKENS = 16
LONG_NAME = "mcp__a_server_with_a_long_name__look_up_a_word_in_the_dictionary_of_rare_words_now"
SEQUENCE = "HALT"
LINE = ("Привет, мир", "こんにちは", "naïve", "🌻")
#: A square in one colour, in pixels; some models take none that are smaller.
PICTURE_SIZE = 64
YELLOW = (255, 255, 0)


class Need(StrEnum):
    """What Claude Code makes of the ability."""

    NEEDED = "Claude Code needs it"
    USED = "Claude Code uses it"
    OTHER = "Claude Code does without it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One request, and what to make of its answer."""

    name: str
    title: str
    need: Need
    #: The request, but for the model.
    body: Mapping[str, Any]
    judge: Judge = field(repr=False)
    #: What to set in Bridge where it fails, in the admin's own words.
    advice: str

    @property
    def stream(self) -> bool:
        """Whether the answer is asked for as a stream."""
        return self.body.get("stream") is True

    def request(self, alias: str) -> dict[str, Any]:
        """Return the body of the request for a model alias."""
        return {"model": alias, **self.body}


def judge(check: Check, heard: Heard) -> Finding:
    """Return what came of a check, with advice where it didn't pass."""
    if heard.error:
        advice = check.advice if heard.status in REFUSED_REQUEST else ADVICE_BY_STATUS.get(heard.status, LOOK_AT_IT)
        return Finding(verdict=Verdict.FAILED, seen=heard.error, advice=advice)
    found = check.judge(heard)
    if found.verdict is Verdict.PASSED:
        return found
    if heard.stop_reason == "max_tokens" and not heard.text and not heard.calls:
        return Finding(verdict=Verdict.PARTLY, seen="its tokens ran out before it said anything", advice=THINKS_LONG)
    return replace(found, advice=found.advice or check.advice)


def find_check(name: str) -> Check | None:
    """Return the check of that name; None when there is none."""
    return next((check for check in CHECKS if check.name == name), None)


#: Statuses that tell that the upstream doesn't take what the check asks.
REFUSED_REQUEST = (400, 413, 422)
LOOK_AT_IT = "The request's page tells what each attempt met. If nothing came in time, raise the upstream's times under Patience."
ADVICE_BY_STATUS = MappingProxyType(
    {
        401: "Take a client token that is valid.",
        402: "Raise the budget that is spent, under Budgets.",
        403: "Let the client token use this alias (its scopes) from this address (its networks).",
        404: "Add a route for this alias, or mend the upstream model's name on it.",
        429: "Wait a minute and check again; raise the limits of the client token or of the credentials if they are ours.",
    }
)
THINKS_LONG = (
    'It thinks for longer than the check allows. If it can do without, set "reasons" of the upstream model to yes and '
    '"effort_off" in the upstream\'s profile overrides to its word for no thinking.'
)
EMULATE = 'Set "tools" of the upstream model to "emulated in the prompt".'
COUNTS = "Nothing has to be set: budgets and reports go by Bridge's own estimates."


def _ask(text: str, **more: Any) -> dict[str, Any]:
    return {"max_tokens": MAX_TOKENS, "messages": [{"role": "user", "content": text}], **more}


def _tool(name: str, description: str, **types: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types), "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": schema}


def one_colour_png(size: int, colour: tuple[int, int, int]) -> str:
    """Draw a PNG in one colour, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    header = pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(colour) * size) * size
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


WEATHER = _tool("get_weather", "Tell the weather in a city for some days.", city="string", days="integer")
CLOCK = _tool("get_time", "Tell the time in a city.", city="string")
MOOD = _tool("note_mood", "Note the mood of the user.", mood="string")
LOOK_UP = _tool("look_up", "Look up a word's meaning.", word="string")

CHECKS: Sequence[Check] = (
    Check(
        name="whole",
        title="Answers whole",
        need=Need.NEEDED,
        body=_ask("Say hello in one short sentence."),
        judge=judges.answers_whole,
        advice="The request's page tells what came. Test the credential, and look at the upstream's base URL and dialect.",
    ),
    Check(
        name="stream",
        title="Answers as a stream",
        need=Need.NEEDED,
        body=_ask("Write the numbers from one to twenty as words.", stream=True),
        judge=judges.answers_in_pieces,
        advice=(
            "If a proxy before the upstream gathers the answer, turn its buffering off. If the stream only lacks its "
            'proper end, set "lenient_eof" to true in the upstream\'s profile overrides.'
        ),
    ),
    Check(
        name="usage_whole",
        title="Counts tokens of whole answers",
        need=Need.OTHER,
        body=_ask("Say good morning in one short sentence."),
        judge=judges.counted_by_upstream,
        advice=COUNTS,
    ),
    Check(
        name="usage_stream",
        title="Counts tokens of streams",
        need=Need.USED,
        body=_ask("Say good evening in one short sentence.", stream=True),
        judge=judges.counted_by_upstream,
        advice=f'If "stream_usage" is false in the upstream\'s profile, set it to true in its profile overrides. {COUNTS}',
    ),
    Check(
        name="max_tokens",
        title="Keeps to max_tokens",
        need=Need.USED,
        body=_ask("Write the numbers from one to a hundred as words.", max_tokens=LEAST_TOKENS),
        judge=judges.ends_at_limit,
        advice=(
            'Set "max_tokens_key" in the upstream\'s profile overrides to the other key, "max_completion_tokens" or "max_tokens".'
        ),
    ),
    Check(
        name="stop_sequence",
        title="Ends at a stop sequence",
        need=Need.OTHER,
        body=_ask(
            f"Repeat this line exactly, and write nothing else: alpha beta gamma {SEQUENCE} delta epsilon",
            stop_sequences=[SEQUENCE],
        ),
        judge=judges.ends_at_sequence(SEQUENCE),
        advice='Set "stop_max" to 0 in the upstream\'s profile overrides: then Bridge cuts the text itself.',
    ),
    Check(
        name="tool_call",
        title="Calls a tool",
        need=Need.NEEDED,
        body=_ask('Call the tool get_weather for the city "Paris" and 3 days.', tools=[WEATHER], stream=True),
        judge=judges.calls_tool("get_weather", {"city": str, "days": int}),
        advice=EMULATE,
    ),
    Check(
        name="forced_tool",
        title="Calls a tool that is forced",
        need=Need.OTHER,
        body=_ask(
            "It is a fine day, and I am glad.", tools=[MOOD, LOOK_UP], tool_choice={"type": "tool", "name": "note_mood"}
        ),
        judge=judges.calls_tool("note_mood", {"mood": str}),
        advice='Set "tool_choice_tool" to "required" or "ask" in the upstream\'s profile overrides.',
    ),
    Check(
        name="no_tool",
        title="Calls none when none may be called",
        need=Need.OTHER,
        body=_ask(
            'Call the tool get_time for the city "Oslo". If you can call no tool, answer with the word unable.',
            tools=[CLOCK],
            tool_choice={"type": "none"},
        ),
        judge=judges.calls_nothing,
        advice='Set "tool_choice_none" to "drop_tools" in the upstream\'s profile overrides.',
    ),
    Check(
        name="two_tools",
        title="Calls two tools at once",
        need=Need.USED,
        body=_ask(
            'Call the tool get_weather and call the tool get_time, both now and in the same answer, for the city "Rome" '
            "and 2 days.",
            tools=[WEATHER, CLOCK],
            stream=True,
        ),
        judge=judges.calls_both(frozenset({"get_weather", "get_time"})),
        advice=f"One call after the other works too, and takes longer. If calls fail altogether: {EMULATE}",
    ),
    Check(
        name="tool_result",
        title="Reads a tool's result",
        need=Need.NEEDED,
        body={
            "max_tokens": MAX_TOKENS,
            "tools": [LOOK_UP],
            "messages": [
                {
                    "role": "user",
                    "content": "Look up the word quimble with the tool, then tell me in one sentence what it means.",
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "toolu_01", "name": "look_up", "input": {"word": "quimble"}}
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_01", "content": "A quimble is a small zorvanth."}
                    ],
                },
            ],
        },
        judge=judges.says("zorvanth"),
        advice=f'If the upstream refuses the history, try its profile\'s "content_null" and "tool_id_style". Otherwise: {EMULATE}',
    ),
    Check(
        name="image",
        title="Sees an image",
        need=Need.USED,
        body={
            "max_tokens": MAX_TOKENS,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": one_colour_png(PICTURE_SIZE, YELLOW),
                            },
                        },
                        {"type": "text", "text": "What colour is this picture? Answer with one word."},
                    ],
                }
            ],
        },
        judge=judges.sees("yellow"),
        advice='Set "takes images" of the upstream model to no: then a line of text stands in an image\'s place.',
    ),
    Check(
        name="thinking",
        title="Shows its thinking",
        need=Need.OTHER,
        body=_ask(
            "Which is larger, 9 or 11? Think first, then answer with the number alone.",
            thinking={"type": "adaptive"},
            output_config={"effort": "low"},
        ),
        judge=judges.thinks,
        advice=(
            'If the model reasons, set "reasons" of the upstream model to yes, and "reasoning_request" in the upstream\'s '
            "profile overrides to the way in which it is asked."
        ),
    ),
    Check(
        name="system_turn",
        title="Obeys a system message within the conversation",
        need=Need.USED,
        body={
            "max_tokens": MAX_TOKENS,
            "messages": [
                {"role": "user", "content": "Hello."},
                {"role": "assistant", "content": "Hello! What can I do for you?"},
                {"role": "user", "content": "What is the capital of France?"},
                {"role": "system", "content": 'Whatever the question is, answer with the word "plumeria" alone.'},
            ],
        },
        judge=judges.says("plumeria"),
        advice='Set "system_mid" to another of "user", "inline" and "hoist" in the upstream\'s profile overrides.',
    ),
    Check(
        name="long_tool_name",
        title="Calls a tool with a long name",
        need=Need.USED,
        body=_ask(
            'Call the only tool, for the word "heron".',
            tools=[_tool(LONG_NAME, "Look up a word's meaning.", word="string")],
            stream=True,
        ),
        judge=judges.calls_tool(LONG_NAME, {"word": str}),
        advice='Set "tool_name_max" in the upstream\'s profile overrides to the longest name that it takes.',
    ),
    Check(
        name="scripts",
        title="Leaves other scripts unharmed",
        need=Need.NEEDED,
        body=_ask(f"Repeat this line exactly, and write nothing else: {' '.join(LINE)}", stream=True),
        judge=judges.keeps_text(*LINE),
        advice="Look at what stands between Bridge and the upstream: something there doesn't pass UTF-8 on as it is.",
    ),
)
