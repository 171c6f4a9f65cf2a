"""Tool results that are larger than the whole conversation needs them: their middle is left out.

The same result is always clipped the same way, whatever stands around it, so that an upstream's prompt cache holds.
"""

from collections.abc import Mapping
from typing import Any

from translator.core.estimate import text_tokens

__all__ = ["clip_results", "clipped", "clipped_to_tokens"]

#: What stays of a text: so much of it from its beginning, the rest from its end.
HEAD_SHARE = 2 / 3
#: Room for the words that stand for what is left out.
NOTICE_CHARS = 80
#: A beginning and an end may count as more than a middle: so much shorter, they mostly don't count as too much.
SHORTENED_SHARE = 0.9
#: No text is more tokens than this by our estimate.
TOKENS_PER_CHAR_MAX = 1.1


def clipped(text: str, chars: int) -> str:
    """Return at most `chars` characters of a text: its beginning and its end, and between them what is missing."""
    if len(text) <= chars:
        return text
    if chars < NOTICE_CHARS:
        return text[:chars]
    room = chars - NOTICE_CHARS
    head = int(room * HEAD_SHARE)
    tail = room - head
    notice = f"\n[the gateway left out {len(text) - room} characters here]\n"
    return f"{text[:head]}{notice}{text[len(text) - tail :]}"


def clipped_to_tokens(text: str, tokens: float) -> str:
    """Return at most `tokens` estimated tokens of a text; the same object when it has no more."""
    if len(text) * TOKENS_PER_CHAR_MAX <= tokens or (size := text_tokens(text)) <= tokens:
        return text
    short = clipped(text, int(len(text) * tokens / size * SHORTENED_SHARE))
    return short if text_tokens(short) <= tokens else clipped(text, int(tokens / TOKENS_PER_CHAR_MAX))


def clip_results(messages: list[dict[str, Any]], tokens: float) -> tuple[list[dict[str, Any]], int]:
    """Return the messages with no text of a tool result larger than `tokens`, and how many were."""
    count = 0

    def text_of(text: str) -> str:
        nonlocal count
        short = clipped_to_tokens(text, tokens)
        count += short is not text
        return short

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
