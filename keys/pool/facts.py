"""What is known of an attempt when it is over."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum


class Kind(StrEnum):
    """How an attempt ended."""

    #: The whole answer came.
    OK = "ok"
    #: A status other than 2xx.
    HTTP_ERROR = "http_error"
    #: A 2xx that holds an error, or something that isn't an answer.
    BAD_ANSWER = "bad_answer"
    #: The answer stopped in the middle.
    TRUNCATED = "truncated"
    #: No connection: refused, DNS, TLS, reset before the first byte.
    NETWORK = "network"
    #: Its address is one that may not be called.
    REFUSED = "refused"
    #: The upstream kept silent longer than its clocks allow.
    TIMEOUT = "timeout"
    #: The client left first.
    CLIENT_GONE = "client_gone"
    #: Not sent: all workers together have used up the credential's own limit.
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The facts of a finished attempt; what they mean is judged elsewhere."""

    kind: Kind
    status: int | None = None
    #: The upstream's code, type and message in one text.
    error_text: str = field(default="", repr=False)
    #: The answer's headers, names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ttft_ms: int | None = None
    #: Input and output together, for the token window.
    tokens: int = 0
    #: A byte of the answer went to the client: nothing may be tried again.
    is_sent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """What an answer's headers say about limits."""

    #: Seconds to wait; None when nothing says so.
    retry_after_s: float | None = None
    #: Seconds until an exhausted allowance is full again; None when none is exhausted.
    exhausted_for_s: float | None = None


#: `1m30s`, `6ms`, `12.5s`, as OpenAI-compatible upstreams write durations.
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
HEADER_CHARS_MAX = 64
#: A number beyond this is a Unix time (some upstreams send milliseconds).
EPOCH_S = 1_000_000_000
EPOCH_MS = 1_000_000_000_000


#: What is left of an allowance, and when it is full again.
ALLOWANCES = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
)


def read_announced(headers: Mapping[str, str], *, now: float) -> Announced:
    """Read `Retry-After` (seconds or a date), `retry-after-ms`, and the allowances.

    Sources: RFC 9110 10.2.3; https://platform.openai.com/docs/guides/rate-limits (2026-11);
    https://docs.anthropic.com/en/api/rate-limits (2026-11).
    """
    exhausted = [
        seconds
        for left, reset in ALLOWANCES
        if headers.get(left, "").strip() == "0" and (seconds := _seconds(headers.get(reset, ""), now)) is not None
    ]
    return Announced(retry_after_s=_retry_after_s(headers, now), exhausted_for_s=max(exhausted, default=None))


def _retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = headers.get("retry-after-ms", "").strip()
    if len(milliseconds) < HEADER_CHARS_MAX and re.fullmatch(r"\d{1,12}(\.\d+)?", milliseconds, re.ASCII):
        return float(milliseconds) / 1000
    return _seconds(headers.get("retry-after", ""), now)


def _seconds(text: str, now: float) -> float | None:
    """Read seconds, a duration, a Unix time or a date; None when it is none of them."""
    text = text.strip()
    if not text or len(text) > HEADER_CHARS_MAX or not text.isascii():
        return None
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return _from_number(float(text), now)
    if match := DURATION.fullmatch(text):
        days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
        return days * 86_400 + hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return _from_date(text, now)


def _from_number(number: float, now: float) -> float:
    if number >= EPOCH_MS:
        return max(0.0, number / 1000 - now)
    return max(0.0, number - now) if number >= EPOCH_S else number


def _from_date(text: str, now: float) -> float | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            date = parse(text)
        except (ValueError, TypeError, OverflowError):
            continue
        return None if date.tzinfo is None else max(0.0, date.timestamp() - now)
    return None
