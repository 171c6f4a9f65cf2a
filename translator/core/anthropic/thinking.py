"""Thinking that an upstream of the Messages API refuses to read, since it didn't sign it itself.

A conversation may have begun at another upstream, account or model, or its client lost the signatures. Anthropic then
refuses each further request. It takes them without earlier thinking; so the call is tried once more like that.

Source: Anthropic's error messages as reported in public (read 2026-12-01).
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["is_refused", "without_thinking"]

REFUSAL = re.compile(
    r"invalid .{0,4}signature.{0,8} in .{0,4}thinking|thinking\.signature.{0,4}: field required"
    r"|thinking block must contain thinking|redacted_thinking.{0,40}(?:invalid|could not)",
    re.IGNORECASE,
)
KINDS = ("thinking", "redacted_thinking")


def is_refused(refusal: str, body: Mapping[str, Any]) -> bool:
    """Tell whether a refusal of `body` is about earlier thinking in it."""
    return REFUSAL.search(refusal) is not None and without_thinking(body) != body


def without_thinking(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without earlier thinking, and without messages that held nothing else."""
    messages = [_without_thinking(message) for message in body["messages"]]
    return {**body, "messages": [message for message in messages if message is not None]}


def _without_thinking(message: dict[str, Any]) -> dict[str, Any] | None:
    content = message.get("content")
    if message["role"] != "assistant" or not isinstance(content, list):
        return message
    kept = [block for block in content if block["type"] not in KINDS]
    return {**message, "content": kept} if kept or not content else None
