"""How many input tokens a request is, when the upstream cannot be asked.

A guess by length, rather high than low: a client that compacts a little early loses less than one that
overruns the window. Thinking of earlier turns is not counted, as no model reads it again, and neither is what is never
sent on: signatures, encrypted results, cache marks, Claude Code's line of accounting.

Source: https://platform.claude.com/docs/en/build-with-claude/token-counting (what counts, read 2026-11-30). The constants
were fitted in November 2026 to the tokenizer that `anthropic` 0.30 carried: 4 to 10 % high on prose, code and tool schemas, up to
10 % low on logs full of numbers, up to 25 % low on hexadecimal digests. `bench/estimate_error` measures it anew.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

import orjson

from translator.core.anthropic.request import MessagesRequest

__all__ = ["estimate_chat_tokens", "estimate_input_tokens", "message_tokens", "text_tokens"]

CHARS_PER_TOKEN = 3.5
#: Beside its share as a character, each byte of UTF-8 beyond the first: 0.8 of a token a CJK character in all.
TOKENS_PER_EXTRA_BYTE = 0.25
#: Beside its share as a character, each digit: tokenizers cut numbers into pieces of one to three.
TOKENS_PER_DIGIT = 0.25
DIGITS = b"0123456789"
TOKENS_PER_MESSAGE = 4
TOKENS_PER_BLOCK = 3
#: What tool use costs at all: the upstream's template explains it to the model.
TOKENS_FOR_TOOLS = 40
TOKENS_PER_TOOL = 8
#: An image of the size that clients scale to, about 1,050 x 1,050 pixels.
TOKENS_PER_IMAGE = 1_500
#: A page of a PDF holds some 2,000 tokens in some 60 KB; base64 makes 80,000 characters of them.
PDF_CHARS_PER_TOKEN = 40
UNREAD_DOCUMENT = 2_000

#: Blocks of earlier answers that are not read again.
UNCOUNTED = frozenset({"thinking", "redacted_thinking", "container_upload", "fallback", "server_tool_use"})
#: Keys of blocks that no model reads.
UNREAD = frozenset({"type", "id", "tool_use_id", "cache_control", "signature", "encrypted_content", "citations"})


def estimate_input_tokens(request: MessagesRequest, factor: float = 1.0) -> int:
    """Return about how many tokens the request's input is; at least 1.

    Args:
        request: The request.
        factor: What the upstream model's own counts have been to these, measured; 1.0 when nothing was.
    """
    tokens = sum(map(text_tokens, request.system)) + _tool_tokens(request.tools)
    tokens += sum(map(message_tokens, request.messages))
    if request.output_schema is not None:
        tokens += _json_tokens(request.output_schema)
    return max(1, ceil(tokens * factor))


def message_tokens(message: Mapping[str, Any]) -> float:
    """Return what one message adds to the estimate of its request."""
    return TOKENS_PER_MESSAGE + _content_tokens(message.get("content"))


def text_tokens(text: str) -> float:
    """Return about how many tokens a text is."""
    return _utf8_tokens(text.encode(), len(text))


def estimate_chat_tokens(body: Mapping[str, Any], factor: float = 1.0) -> int:
    """Return about how many tokens the input of a chat/completions body is; at least 1.

    Args:
        body: The body, of which nothing but that it is an object is taken for granted.
        factor: As in `estimate_input_tokens`.
    """
    messages = body.get("messages")
    tokens = sum(map(_chat_message_tokens, messages)) if isinstance(messages, list) else 0.0
    if tools := body.get("tools"):
        tokens += TOKENS_FOR_TOOLS + _json_tokens(tools)
    return max(1, ceil(tokens * factor))


def _chat_message_tokens(message: Any) -> float:
    if not isinstance(message, dict):
        return TOKENS_PER_MESSAGE
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    calls = message.get("tool_calls")
    return TOKENS_PER_MESSAGE + sum(map(_chat_part_tokens, parts)) + (_json_tokens(calls) if calls else 0)


def _chat_part_tokens(part: Any) -> float:
    match part:
        case None:
            return 0
        case str() | {"type": "text", "text": str()}:
            return text_tokens(part if isinstance(part, str) else part["text"])
        case {"type": "image_url"}:
            return TOKENS_PER_IMAGE
        case {"type": "file"}:
            return UNREAD_DOCUMENT
        case _:
            return _json_tokens(part)


def _json_tokens(value: Any) -> float:
    # The few characters outside ASCII count as their bytes, which comes to about the same.
    text = orjson.dumps(value)
    return _utf8_tokens(text, len(text))


def _utf8_tokens(text: bytes, chars: int) -> float:
    digits = len(text) - len(text.translate(None, DIGITS))
    extra_bytes = len(text) - chars
    return chars / CHARS_PER_TOKEN + digits * TOKENS_PER_DIGIT + extra_bytes * TOKENS_PER_EXTRA_BYTE


def _tool_tokens(tools: list[dict[str, Any]]) -> float:
    if not tools:
        return 0
    return TOKENS_FOR_TOOLS + sum(TOKENS_PER_TOOL + _json_tokens(tool) for tool in tools)


def _content_tokens(content: Any) -> float:
    if isinstance(content, str):
        return text_tokens(content)
    return sum(TOKENS_PER_BLOCK + _block_tokens(block) for block in content or ())


def _block_tokens(block: Mapping[str, Any]) -> float:
    match block:
        case {"type": "text", "text": str(text)}:
            return text_tokens(text)
        case {"type": str(kind)} if kind in UNCOUNTED:
            return 0
        case {"type": "image"}:
            return TOKENS_PER_IMAGE
        case {"type": "document"}:
            return _document_tokens(block["source"])
        case {"type": "tool_use", "name": name}:
            return text_tokens(name) + _json_tokens(block.get("input") or {})
        case {"type": "tool_result" | "search_result"}:
            return _content_tokens(block.get("content"))
        case _:
            return _json_tokens({key: value for key, value in block.items() if key not in UNREAD})


def _document_tokens(source: Mapping[str, Any]) -> float:
    match source:
        case {"type": "text", "data": data}:
            return text_tokens(data)
        case {"type": "content", "content": content}:
            return _content_tokens(content)
        case {"type": "base64", "data": data}:
            return max(UNREAD_DOCUMENT, len(data) / PDF_CHARS_PER_TOKEN)
        case _:
            return UNREAD_DOCUMENT
