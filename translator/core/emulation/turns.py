"""Calls and results of earlier turns as text: a model sees its own calls in the form that it is asked for.

What the client's history lacks is made up for as it is for models that call tools themselves.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from translator.core.emulation.prompt import written_call
from translator.core.openai_chat.blocks import Part, text_part
from translator.core.openai_chat.history import NO_RESULT, match_results, media_of, result_text
from translator.core.openai_chat.turns import AssistantTurn, Result, UserTurn

__all__ = ["told_turns"]

CLOSING = "</tool_response"


def told_turns(turns: Iterable[AssistantTurn | UserTurn], notes: list[str]) -> list[AssistantTurn | UserTurn]:
    """Return the turns without calls and results, which are said in their texts.

    Args:
        turns: The turns; they alternate.
        notes: Where to note what was made up for, as short codes.
    """
    told: list[AssistantTurn | UserTurn] = []
    open_calls: list[Mapping[str, Any]] = []
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            told.append(_told_assistant(turn))
            open_calls = turn.calls
        else:
            told.append(_told_user(turn, open_calls, notes))
            open_calls = []
    if open_calls:
        told.append(_told_user(UserTurn(), open_calls, notes))
    return told


def _told_assistant(turn: AssistantTurn) -> AssistantTurn:
    calls = "\n".join(written_call(call["name"], call.get("input") or {}) for call in turn.calls)
    return AssistantTurn(texts=[*turn.texts, calls] if calls else turn.texts, thinking=turn.thinking)


def _told_user(turn: UserTurn, calls: list[Mapping[str, Any]], notes: list[str]) -> UserTurn:
    answers, orphans = match_results([(call["id"], call["id"]) for call in calls], turn.results)
    told = UserTurn()
    for call, results in zip(calls, answers, strict=True):
        if not results:
            notes.append("tool_result_missing")
        told.say("user", _response(call["name"], results))
    for orphan in orphans:
        notes.append("tool_result_orphaned")
        told.say(
            "user", [text_part(f"[Tool result for {orphan.tool_use_id}] {result_text(orphan)}"), *media_of(orphan)]
        )
    told.add(UserTurn(said=turn.said))
    return told


def _response(name: str, results: list[Result]) -> list[Part]:
    """Return one block for the results of a call, and the media in them right behind it."""
    text = "\n".join(map(result_text, results)) if results else NO_RESULT
    # A result that speaks of such blocks must not end its own.
    body = text.replace(CLOSING, CLOSING.replace("/", "\\/"))
    media = [part for result in results for part in media_of(result)]
    return [text_part(f'<tool_response name="{name}">\n{body}\n</tool_response>'), *media]
