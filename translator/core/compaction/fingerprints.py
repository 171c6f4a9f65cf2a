"""What a summary covers, as a digest: it fits a conversation only if every message that it covers is the same.

Left out of account is what clients change from turn to turn and no model reads: cache marks, and whether a text comes
as a string or as one block.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import orjson

__all__ = ["prefix_fingerprints"]


def prefix_fingerprints(messages: list[dict[str, Any]], lengths: Iterable[int]) -> dict[int, str]:
    """Return the digests of the first n messages, for each n asked for; those that are too long are left out."""
    wanted = {length for length in lengths if 0 <= length <= len(messages)}
    running = sha256()
    found: dict[int, str] = {}
    for length in range(max(wanted, default=-1) + 1):
        if length in wanted:
            found[length] = running.hexdigest()
        if length < len(messages):
            running.update(orjson.dumps(_plain_message(messages[length]), option=orjson.OPT_SORT_KEYS) + b"\n")
    return found


def _plain_message(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "content": _plain_content(message.get("content"))}


def _plain_content(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_plain_block(block) for block in content] if isinstance(content, list) else content


def _plain_block(block: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in block.items() if key != "cache_control"}
    return (
        {**plain, "content": _plain_content(plain["content"])}
        if plain.get("type") == "tool_result" and "content" in plain
        else plain
    )
