"""How long an upstream asks to be left alone.

Sources: RFC 9110 section 10.2.3; https://platform.openai.com/docs/guides/rate-limits (read 2026-11-30).
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

__all__ = ["MAX_TOLD_S", "retry_after_s", "told_retry_after"]

#: Longest wait told to a client: Claude Code gives up at once on a longer one, and the SDKs would sit it out.
MAX_TOLD_S = 60
DURATION = re.compile(r"(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m(?!s))?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)s)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)ms)?")  # fmt: skip
SECONDS = (86_400, 3600, 60, 1, 0.001)
IN_TEXT = re.compile(r"(?:try again|retry|available) (?:in|after) ([0-9hms.]{1,24})", re.IGNORECASE)
#: A larger number is a point in time, in milliseconds if it is larger still.
EPOCH_S, EPOCH_MS = 10**9, 10**12


def retry_after_s(headers: Mapping[str, str], text: str = "") -> float | None:
    """Return the seconds to wait; None when the upstream does not say.

    Args:
        headers: The upstream's, names in lower case. A date in them is reckoned from their own `date`.
        text: The upstream's words, which say it where the headers do not.
    """
    return next(_waits(headers, text), None)


def told_retry_after(headers: Mapping[str, str], text: str = "") -> dict[str, str]:
    """Return the `retry-after` header for the client: whole seconds, bounded; none when the upstream does not say."""
    wait = retry_after_s(headers, text)
    return {} if wait is None else {"retry-after": str(min(MAX_TOLD_S, max(1, math.ceil(wait))))}


def _waits(headers: Mapping[str, str], text: str) -> Iterator[float]:
    """Yield what each place says, best place first."""
    now = _date(headers.get("date", ""))
    yield from _number(headers.get("retry-after-ms", ""), unit_s=0.001)
    yield from _number(headers.get("retry-after", ""), unit_s=1)
    if now and (until := _date(headers.get("retry-after", ""))):
        yield max(0.0, (until - now).total_seconds())
    resets = [wait for kind in _exhausted(headers) for wait in _reset(headers.get(f"x-ratelimit-reset{kind}", ""), now)]
    if resets:
        yield max(resets)
    if found := IN_TEXT.search(text):
        yield from _duration(found.group(1).rstrip("."))


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
