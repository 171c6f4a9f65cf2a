"""What is known of an attempt when it is over."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from translator.core.retry_after import wait_in


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

    @property
    def wait_s(self) -> float | None:
        """How long to wait, by the best word there is; None when there is none, and "0" says nothing."""
        return self.retry_after_s or self.exhausted_for_s or None


#: `1m30s`, `6ms`, `12.5s`, as OpenAI-compatible upstreams write durations.
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
HEADER_CHARS_MAX = 64
#: A number beyond this is a Unix time (some upstreams send milliseconds).
EPOCH_S = 1_000_000_000
EPOCH_MS = 1_000_000_000_000


ANTHROPIC_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
#: What is left of an allowance, and when it is full again.
ALLOWANCES = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    *((f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset") for kind in ANTHROPIC_KINDS),
)
#: A quota of the day, in Google's words, which still announce the end of the minute.
DAILY = "PerDay"
DAILY_S = 3600.0


def read_announced(headers: Mapping[str, str], text: str = "", *, now: float) -> Announced:
    """Read `Retry-After` (seconds or a date), `retry-after-ms`, the allowances, and what else the error says.

    Args:
        text: The error's body or words, which say it where the headers don't.
        now: By our clock. The answer's own `date` is believed before it: dates are of the upstream's clock.

    Sources: RFC 9110 10.2.3; https://platform.openai.com/docs/guides/rate-limits (2026-11);
    https://docs.anthropic.com/en/api/rate-limits (2026-11).
    """
    now = _moment(headers.get("date", "")) or now
    exhausted = [
        seconds
        for left, reset in ALLOWANCES
        if headers.get(left, "").strip() == "0" and (seconds := _seconds(headers.get(reset, ""), now)) is not None
    ]
    retry_after_s = _retry_after_s(headers, now)
    if not retry_after_s and text:
        retry_after_s = wait_in(text) or retry_after_s
        if DAILY in text:
            retry_after_s = max(retry_after_s or 0.0, DAILY_S)
    return Announced(retry_after_s=retry_after_s, exhausted_for_s=max(exhausted, default=None))


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
    moment = _moment(text)
    return None if moment is None else max(0.0, moment - now)


def _moment(text: str) -> float | None:
    """Read a date with its zone as Unix time."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            date = parse(text[:HEADER_CHARS_MAX])
        except (ValueError, TypeError, OverflowError):
            continue
        return None if date.tzinfo is None else date.timestamp()
    return None
