"""Bodies of requests: bytes in, a JSON object out, or a reason why not.

Source: RFC 8259 and RFC 7493 (I-JSON), both as strict as orjson: UTF-8 only, finite numbers, no lone surrogates.
A lone surrogate is refused rather than replaced, as Anthropic does: no encoder downstream could send it on.
Integers beyond 64 bits are read as floating point numbers, as a JavaScript client would read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from translator.core.errors import InvalidRequest

__all__ = ["JsonLimits", "load_object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """How large a JSON tree may be."""

    #: Objects and arrays within each other.
    depth: int = 64
    #: Members of objects and items of arrays, all together.
    members: int = 100_000


def load_object(raw: bytes, limits: JsonLimits) -> dict[str, Any]:
    """Return the object that `raw` holds.

    Raises:
        InvalidRequest: Not JSON, not an object, a key given twice in one object, too deep or too large.
    """
    try:
        tree = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        _refuse(f"is not valid JSON: {error}")
    if not isinstance(tree, dict):
        _refuse("is not valid JSON: an object is needed")
    members = _measure(tree, limits)
    if members != _count_keys(raw):
        _refuse("is not valid JSON: an object has the same key twice")
    return tree


def _refuse(reason: str) -> NoReturn:
    raise InvalidRequest(path="", reason=f"The request body {reason}") from None


def _measure(tree: dict[str, Any], limits: JsonLimits) -> int:
    """Return the number of object members, level by level: no recursion for a hostile body to exhaust."""
    level: list[Any] = [tree]
    members = size = depth = 0
    while level:
        depth += 1
        objects = [node for node in level if type(node) is dict]
        arrays = [node for node in level if type(node) is list]
        members += sum(map(len, objects))
        size += sum(map(len, level))
        if depth > limits.depth:
            _refuse(f"is nested deeper than {limits.depth} levels")
        if size > limits.members:
            _refuse(f"has more than {limits.members} members")
        level = [
            child
            for values in (*map(Mapping.values, objects), *arrays)
            for child in values
            if type(child) is dict or type(child) is list
        ]
    return members


def _count_keys(raw: bytes) -> int:
    """Return how many keys the text of valid JSON has.

    Without its strings, JSON keeps one colon a key. Escaped backslashes go first, then escaped quotes,
    so that each quote left opens or closes a string.
    """
    outside = raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    return b"".join(outside).count(b":")
