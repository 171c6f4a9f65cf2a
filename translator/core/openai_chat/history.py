"""Turns to chat messages, in the order that chat upstreams insist on.

Each call is answered by one `tool` message, directly after the assistant's and in the order of the calls; what the
user said comes next, in one message, with media out of tool results at its end. What the client's history lacks is
made up for, and what has no place is said as text, since a refused history would end the client's session for good.

Source: https://platform.openai.com/docs/guides/function-calling and the upstreams' error messages (2026-11-30).
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import orjson

from translator.core.openai_chat.blocks import Part, joined_text, text_part
from translator.core.openai_chat.thinking import replayed_thinking
from translator.core.openai_chat.tools import upstream_tool_name
from translator.core.openai_chat.turns import AssistantTurn, Result, UserTurn
from translator.core.switches import Profile

__all__ = ["NO_RESULT", "History", "match_results", "media_of", "result_text"]

#: A call's id as the client knows it, and as the upstream is told it.
type Call = tuple[str, str]

NO_RESULT = "[no result: tool call was interrupted]"
#: Said between tool messages and a user message, where the upstream wants an assistant there.
BRIDGE = "I have the results."

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LONGEST_ID = 40
MISTRAL_ID = re.compile("[0-9A-Za-z]{9}")


@dataclass(slots=True, kw_only=True)
class History:
    """Chat messages as they are written, one turn after the other."""

    profile: Profile
    #: Whether this request switches thinking off.
    thinking_is_off: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    #: Ids of calls so far, as the client knows them or as they were made unique.
    ids: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _repeats: defaultdict[str, int] = field(default_factory=lambda: defaultdict(lambda: 1))

    def write(self, turns: Iterable[AssistantTurn | UserTurn]) -> None:
        """Write all turns; they alternate."""
        open_calls: list[Call] = []
        for turn in turns:
            if isinstance(turn, AssistantTurn):
                open_calls = self._write_assistant(turn)
            else:
                self._write_user(turn, open_calls)
                open_calls = []
        self._answer(open_calls, [[] for _ in open_calls])

    def _write_assistant(self, turn: AssistantTurn) -> list[Call]:
        """Write a turn of the assistant; return its calls' ids, the client's and the upstream's."""
        calls = [(call["id"], self._upstream_id(call["id"])) for call in turn.calls]
        message: dict[str, Any] = {"role": "assistant"}
        if turn.texts:
            message["content"] = "\n\n".join(turn.texts)
        elif self.profile.content_null != "omit":
            message["content"] = None if self.profile.content_null == "null" else ""
        message |= replayed_thinking(
            turn.thinking, profile=self.profile, has_calls=bool(calls), is_off=self.thinking_is_off
        )
        if calls:
            message["tool_calls"] = [
                self._tool_call(call, upstream_id) for call, (_, upstream_id) in zip(turn.calls, calls, strict=True)
            ]
        self.messages.append(message)
        return calls

    def _tool_call(self, call: Mapping[str, Any], upstream_id: str) -> dict[str, Any]:
        function = {
            "name": upstream_tool_name(call["name"], self.profile.tool_name_max),
            "arguments": orjson.dumps(call.get("input") or {}).decode(),
        }
        return {"id": upstream_id, "type": "function", "function": function, **self.profile.tool_call_extra}

    def _upstream_id(self, tool_use_id: str) -> str:
        unique = tool_use_id
        while unique in self.ids:
            self._repeats[tool_use_id] += 1
            unique = f"{tool_use_id}_{self._repeats[tool_use_id]}"
        if unique != tool_use_id:
            self.notes.append("tool_id_repeated")
        self.ids.add(unique)
        return _styled_id(unique, self.profile.tool_id_style)

    def _write_user(self, turn: UserTurn, calls: list[Call]) -> None:
        answers, orphans = match_results(calls, turn.results)
        self._answer(calls, answers)
        rest = UserTurn()
        for orphan in orphans:
            self.notes.append("tool_result_orphaned")
            rest.say("user", [text_part(f"[Tool result for {orphan.tool_use_id}] {result_text(orphan)}")])
            rest.say("user", media_of(orphan))
        # Media join the user's first words, unless a system message stands before those.
        first = 1 if turn.said and turn.said[0][0] == "user" else 0
        rest.add(UserTurn(said=turn.said[:first]))
        for (_, upstream_id), results in zip(calls, answers, strict=True):
            rest.say("user", _lifted_media(upstream_id, results))
        rest.add(UserTurn(said=turn.said[first:]))
        self._say(rest.said, follows_tools=bool(calls))

    def _answer(self, calls: list[Call], answers: list[list[Result]]) -> None:
        """Write one tool message a call, in the order of the calls."""
        for (_, upstream_id), results in zip(calls, answers, strict=True):
            if not results:
                self.notes.append("tool_result_missing")
            content = "\n".join(map(result_text, results)) if results else NO_RESULT
            self.messages.append(
                {"role": "tool", "tool_call_id": upstream_id, "content": content or self.profile.empty_tool_content}
            )

    def _say(self, said: list[tuple[Literal["user", "system"], list[Part]]], *, follows_tools: bool) -> None:
        if follows_tools and said and said[0][0] == "user" and self.profile.user_after_tool == "merge":
            said = self._merge_into_tool(said)
        for role, parts in said:
            self.messages.append({"role": role, "content": _content(parts)})

    def _merge_into_tool(
        self, said: list[tuple[Literal["user", "system"], list[Part]]]
    ) -> list[tuple[Literal["user", "system"], list[Part]]]:
        """Say the user's text in the last tool message; return what could not be said there."""
        content = _content(said[0][1])
        if isinstance(content, str):
            self.messages[-1]["content"] = f"{self.messages[-1]['content']}\n\n{content}".lstrip()
            return said[1:]
        self.messages.append({"role": "assistant", "content": BRIDGE})
        return said


def match_results(calls: list[Call], results: list[Result]) -> tuple[list[list[Result]], list[Result]]:
    """Return the results of each call, and those of none.

    Calls that share an id take one result each, the last of them all that are left.
    """
    answers: list[list[Result]] = [[] for _ in calls]
    waiting: dict[str, deque[int]] = {}
    for index, (tool_use_id, _) in enumerate(calls):
        waiting.setdefault(tool_use_id, deque()).append(index)
    orphans = []
    for result in results:
        if queue := waiting.get(result.tool_use_id):
            answers[queue.popleft() if len(queue) > 1 else queue[0]].append(result)
        else:
            orphans.append(result)
    return answers, orphans


def _content(parts: list[Part]) -> str | list[Part]:
    """Texts alone are one string, since some upstreams take each part for a message of its own."""
    return joined_text(parts) if all(part["type"] == "text" for part in parts) else parts


def result_text(result: Result) -> str:
    """Return a result as text; media are only named, and only where there is no text."""
    text = joined_text(result.parts, "\n")
    if not text and result.parts:
        text = "[image]" if result.parts[0]["type"] == "image_url" else "[document]"
    if result.is_error and not text.lower().startswith("error"):
        return f"Error: {text or 'no output'}"
    return text


def media_of(result: Result) -> list[Part]:
    """Return the parts of a result that no text can say."""
    return [part for part in result.parts if part["type"] != "text"]


def _lifted_media(upstream_id: str, results: list[Result]) -> list[Part]:
    media = [part for result in results for part in media_of(result)]
    if not media:
        return []
    kind = "Image(s)" if any(part["type"] == "image_url" for part in media) else "File(s)"
    return [text_part(f"{kind} returned by tool call {upstream_id}:"), *media]


def _styled_id(tool_use_id: str, style: str) -> str:
    """Return the id in the upstream's format; the same for the same id, so that results find their call."""
    match style:
        case "mistral9" if not MISTRAL_ID.fullmatch(tool_use_id):
            return _base62(sha256(tool_use_id.encode()).digest())[:9]
        case "max40" if len(tool_use_id) > LONGEST_ID:
            return sha256(tool_use_id.encode()).hexdigest()[:LONGEST_ID]
        case _:
            return tool_use_id


def _base62(digest: bytes) -> str:
    number, digits = int.from_bytes(digest), []
    while number:
        number, digit = divmod(number, 62)
        digits.append(BASE62[digit])
    return "".join(digits)
