"""How long an upstream asks to be left alone.

Sources: RFC 9110 section 10.2.3; https://platform.openai.com/docs/guides/rate-limits,
https://cloud.google.com/apis/design/errors (read 2026-11-30).
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

__all__ = ["MAX_TOLD_S", "told_retry_after", "wait_in"]

#: Longest wait told to a client: Claude Code gives up at once on a longer one, and the SDKs would sit it out.
MAX_TOLD_S = 60
DURATION = re.compile(r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m(?!s))?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)ms)?")  # fmt: skip
SECONDS = (86_400, 3600, 60, 1, 0.001)
IN_TEXT = re.compile(r"(?:try again|retry|available|resets?) (?:in|after) ([0-9hms.]{1,24})", re.IGNORECASE)
#: The same with the unit as a word.
WORDED = re.compile(
    r"(?:try again|retry|available|wait) (?:(?:in|after|for) )?([0-9]{1,6}(?:\.[0-9]{1,6})?) (milli|sec|min|hour)",
    re.IGNORECASE,
)
UNITS = {"milli": 0.001, "sec": 1, "min": 60, "hour": 3600}
#: Keys of an error object that say it in seconds.
BODY_KEYS = ("retry_after", "retry_after_seconds", "resets_in_seconds")
#: These and Google's durations in a body that nobody parsed.
IN_BODY = re.compile(
    rf'"(?:{"|".join(BODY_KEYS)})"\s*:\s*"?([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)[",\s}}]'
    r'|"(?:retryDelay|quotaResetDelay)"\s*:\s*"([0-9hms.]{1,24})"'
)
#: A larger number is a point in time, in milliseconds if it is larger still.
EPOCH_S, EPOCH_MS = 10**9, 10**12


def told_retry_after(
    headers: Mapping[str, str], text: str = "", body: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the `retry-after` header for the client: whole seconds, bounded; none when the upstream does not say.

    Args:
        headers: The upstream's, names in lower case. A date in them is reckoned from their own `date`.
        text: The upstream's words, which say it where the headers do not.
        body: The upstream's error object, which may say it too.
    """
    wait = next(_waits(headers, text, body or {}), None)
    return {} if wait is None else {"retry-after": str(min(MAX_TOLD_S, max(1, math.ceil(wait))))}


def wait_in(text: str) -> float | None:
    """Return the seconds that an error asks to wait, by its words or its unparsed body; None when it doesn't say."""
    return next(_waits_in(text), None)


def _waits(headers: Mapping[str, str], text: str, body: Mapping[str, Any]) -> Iterator[float]:
    """Yield what each place says, best place first."""
    now = _date(headers.get("date", ""))
    yield from _number(headers.get("retry-after-ms", ""), unit_s=0.001)
    yield from _number(headers.get("retry-after", ""), unit_s=1)
    if now and (until := _date(headers.get("retry-after", ""))):
        yield max(0.0, (until - now).total_seconds())
    resets = [wait for kind in _exhausted(headers) for wait in _reset(headers.get(f"x-ratelimit-reset{kind}", ""), now)]
    if resets:
        yield max(resets)
    yield from _told_in(body)
    yield from _waits_in(text)


def _waits_in(text: str) -> Iterator[float]:
    if found := IN_BODY.search(text):
        seconds, duration = found.groups()
        yield from _number(seconds, unit_s=1) if seconds else _duration(duration)
    if found := IN_TEXT.search(text):
        yield from _duration(found.group(1).rstrip("."))
    if found := WORDED.search(text):
        yield float(found.group(1)) * UNITS[found.group(2).lower()]


def _told_in(body: Mapping[str, Any]) -> Iterator[float]:
    """Yield what an error object says: seconds under a key, or Google's `RetryInfo`."""
    for key in BODY_KEYS:
        yield from _number(str(body.get(key)), unit_s=1)
    details = body.get("details")
    for detail in details if isinstance(details, list) else ():
        match detail:
            case {"retryDelay": str(delay)} | {"metadata": {"quotaResetDelay": str(delay)}}:
                yield from _duration(delay)


def _exhausted(headers: Mapping[str, str]) -> list[str]:
    """Return the suffixes of the limits that are used up; of all limits when none is named."""
    kinds = ["", "-requests", "-tokens", "-input-tokens", "-output-tokens"]
    used_up = [kind for kind in kinds if headers.get(f"x-ratelimit-remaining{kind}", "").strip() == "0"]
    return used_up or kinds


def _reset(value: str, now: datetime | None) -> Iterator[float]:
    for number in _number(value, unit_s=1):
        if number < EPOCH_S:
            yield number
        elif now:
            yield max(0.0, (number / 1000 if number >= EPOCH_MS else number) - now.timestamp())
        return
    yield from _duration(value)


def _number(value: str, *, unit_s: float) -> Iterator[float]:
    try:
        number = float(value[:24])
    except ValueError:
        return
    if math.isfinite(number) and number >= 0:
        yield number * unit_s


def _duration(value: str) -> Iterator[float]:
    """Yield the seconds of a duration such as `6m0s` or `17s`."""
    found = DURATION.fullmatch(value.strip())
    if found and any(found.groups()):
        yield sum(float(part) * unit for part, unit in zip(found.groups(), SECONDS, strict=True) if part)


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value[:64])
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
