"""Upstream text made fit for a client: short, plain, and without secrets.

Patterns run on text of bounded length and never backtrack over it more than once.
"""

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["MAX_TEXT_BYTES", "header_value", "is_html", "mask"]

#: The longest upstream text a client is told.
MAX_TEXT_BYTES = 2048
#: Text read at all; the rest is cut off first.
MAX_READ = 16 * 1024
REDACTED = "[redacted]"
#: A shorter secret would take ordinary words with it.
MIN_SECRET = 6

#: What may stand in a header of an answer.
HEADER_VALUE = re.compile(r"[\x21-\x7e]{1,200}")
HTML_START = re.compile(r"\s{0,64}(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)
TAG = re.compile(r"</?[a-zA-Z!][^<>]{0,512}>")
ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}\x07?|[@-Z\\^_])")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
ADDRESS = re.compile(
    r"\b[a-z]{2,8}://[^\s\"'<>]{1,512}|\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?\b", re.IGNORECASE
)
KEY = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|nvapi|xai|hf|fw|pplx|brg)[-_][A-Za-z0-9_*.-]{8,512}|AIza[A-Za-z0-9_*-]{20,512})"
    r"|\bbearer\s{1,8}[^\s\"']{4,512}",
    re.IGNORECASE,
)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Return upstream text on one line of at most `MAX_TEXT_BYTES`, without markup, control codes or secrets.

    Args:
        text: Anything an upstream said.
        secrets: What must not appear, whatever it looks like.
    """
    text = text[:MAX_READ]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, REDACTED)
    for pattern, replacement in ((ANSI, ""), (TAG, " "), (CONTROL, " "), (KEY, REDACTED), (ADDRESS, "[address]")):
        text = pattern.sub(replacement, text)
    return shorten(text.strip())


def shorten(text: str) -> str:
    """Return the beginning of `text` that fits into `MAX_TEXT_BYTES` of UTF-8."""
    data = text.encode(errors="replace")
    return text if len(data) <= MAX_TEXT_BYTES else data[: MAX_TEXT_BYTES - 3].decode(errors="ignore") + "…"


def header_value(value: Any, secrets: Iterable[str] = ()) -> str | None:
    """Return an id of an upstream's as a header may carry it; None when it is none, too long, or holds a secret."""
    if not isinstance(value, str) or not HEADER_VALUE.fullmatch(value):
        return None
    return None if any(secret in value for secret in secrets) else value


def is_html(text: str) -> bool:
    """Tell whether the text is a web page."""
    return bool(HTML_START.match(text))
