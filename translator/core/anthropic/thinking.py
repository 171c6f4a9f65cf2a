"""Thinking that an upstream of the Messages API refuses to read, since it didn't sign it itself.

A conversation may have begun at another upstream, account or model, or its client lost the signatures. Anthropic then
refuses each further request. It takes them without earlier thinking; so the call is tried once more like that. Amid
calls of tools a model that was told to think must have thought before the first of them; then it isn't told.

Source: Anthropic's error messages as reported in public (read 2026-12-01).
"""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

__all__ = ["is_refused", "without_thinking"]

REFUSAL = re.compile(
    r"invalid .{0,4}(?:signature|data).{0,8} in .{0,4}(?:redacted_)?thinking"
    r"|thinking\.(?:signature|data).{0,4}: field required|thinking block must contain thinking"
    r"|expected .{0,4}thinking.{0,8} or .{0,4}redacted_thinking.{0,8}but found"
    r"|blocks in the latest assistant message cannot be modified",
    re.IGNORECASE,
)
KINDS = ("thinking", "redacted_thinking")
#: Of `context_management`: refused where thinking isn't asked for.
CLEARS_THINKING = "clear_thinking_20251015"


def is_refused(refusal: str, body: Mapping[str, Any]) -> bool:
    """Tell whether a refusal of `body` is about earlier thinking in it."""
    return REFUSAL.search(refusal) is not None and without_thinking(body) != body


def without_thinking(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without earlier thinking, and without messages that held nothing else."""
    messages = [kept for message in body["messages"] if (kept := _without_thinking(message)) is not None]
    must_think = (body.get("thinking") or {}).get("type") == "enabled" and _is_amid_calls(messages)
    return {**(_without_asking(body) if must_think else body), "messages": messages}


def _is_amid_calls(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the model is about to read results of its calls."""
    read = takewhile(lambda message: message["role"] != "assistant", reversed(messages))
    blocks = [block for message in read if isinstance(message.get("content"), list) for block in message["content"]]
    return any(block["type"] == "tool_result" for block in blocks)


def _without_asking(body: Mapping[str, Any]) -> dict[str, Any]:
    asked = {key: value for key, value in body.items() if key != "thinking"}
    match body.get("context_management"):
        case {"edits": [*edits]}:
            kept = [edit for edit in edits if not (isinstance(edit, dict) and edit.get("type") == CLEARS_THINKING)]
            asked["context_management"] = {**body["context_management"], "edits": kept}
    return asked


def _without_thinking(message: dict[str, Any]) -> dict[str, Any] | None:
    content = message.get("content")
    if message["role"] != "assistant" or not isinstance(content, list):
        return message
    kept = [block for block in content if block["type"] not in KINDS]
    return {**message, "content": kept} if kept or not content else None
