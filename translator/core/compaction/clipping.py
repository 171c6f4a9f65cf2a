"""Tool results that are larger than the whole conversation needs them: their middle is left out.

The same result is always clipped the same way, whatever stands around it, so that an upstream's prompt cache holds.
"""

from collections.abc import Mapping
from typing import Any

from translator.core.estimate import text_tokens

__all__ = ["clip_results", "clipped"]

#: What stays of a text: so much of it from its beginning, the rest from its end.
HEAD_SHARE = 2 / 3
#: Room for the words that stand for what is left out.
NOTICE_CHARS = 80


def clipped(text: str, chars: int) -> str:
    """Return at most `chars` characters of a text: its beginning and its end, and between them what is missing."""
    if len(text) <= chars:
        return text
    room = max(0, chars - NOTICE_CHARS)
    head = int(room * HEAD_SHARE)
    tail = room - head
    notice = f"\n[the gateway left out {len(text) - room} characters here]\n"
    return f"{text[:head]}{notice}{text[len(text) - tail :]}"


def clip_results(messages: list[dict[str, Any]], tokens: float) -> tuple[list[dict[str, Any]], int]:
    """Return the messages with no text of a tool result larger than `tokens`, and how many were."""
    count = 0

    def text_of(text: str) -> str:
        nonlocal count
        # A text has no more tokens than bytes, and most are too short to be looked at.
        if len(text) <= tokens or (size := text_tokens(text)) <= tokens:
            return text
        count += 1
        return clipped(text, int(len(text) * tokens / size))

    def block_of(block: Mapping[str, Any]) -> Any:
        match block:
            case {"type": "text", "text": str(text)} if (short := text_of(text)) is not text:
                return {**block, "text": short}
            case _:
                return block

    def result_of(block: Mapping[str, Any]) -> Any:
        match block:
            case {"type": "tool_result", "content": str(text)} if (short := text_of(text)) is not text:
                return {**block, "content": short}
            case {"type": "tool_result", "content": list(inner)} if inner != (less := [*map(block_of, inner)]):
                return {**block, "content": less}
            case _:
                return block

    made = []
    for message in messages:
        content = message.get("content")
        before = count
        less = [*map(result_of, content)] if message["role"] == "user" and isinstance(content, list) else content
        made.append(message if count == before else {**message, "content": less})
    return made, count
