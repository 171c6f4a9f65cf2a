"""JSON as upstreams write it: what the strict reader refuses for one broken character is read all the same.

An emoji escaped as two surrogates may come cut in two, one half in each chunk. `orjson` refuses such text, and
no client could be sent it: `mend` joins the halves, or replaces one that stays alone.
"""

import json
from typing import Any

import orjson

__all__ = ["loads", "mend", "mend_all"]

#: Digits that surely fit the writer's 64 bits; longer integers become floats.
INT_DIGITS = 18


def loads(data: bytes | str) -> Any:
    """Return the value that `data` holds, with U+FFFD for bytes that are not UTF-8.

    Strings may hold lone surrogates, where `data` has them as escapes; see `mend_all`.

    Raises:
        ValueError: `data` is not JSON, or is nested too deep.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        text = data.decode(errors="replace") if isinstance(data, bytes) else data
    try:
        return json.loads(text, parse_int=_parse_int)
    except RecursionError as error:
        message = "nested too deep"
        raise ValueError(message) from error


def mend_all(value: Any) -> Any:
    """Return `value` with every string in it mended.

    Raises:
        ValueError: `value` is nested too deep.
    """
    try:
        return _mend_all(value)
    except RecursionError as error:
        message = "nested too deep"
        raise ValueError(message) from error


def _mend_all(value: Any) -> Any:
    match value:
        case str():
            return mend(value)
        case dict():
            return {mend(key): _mend_all(item) for key, item in value.items()}
        case list():
            return [_mend_all(item) for item in value]
        case _:
            return value


def mend(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) <= INT_DIGITS else float(digits)
