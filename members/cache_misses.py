"""Where a session's prompt cache was missed: what a conversation had sent before was read anew, at the full price.

A request of a conversation carries all that went before. If the upstream had still held that, it would have told that
many tokens as read from its cache; what is missing of them was read anew. Why, is not recorded; what changed since the
request before is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from members.agents import Part, Request, conversations
from usage.models import Price

#: Less than this, or less than half of what went before, is no miss: caches hold whole blocks.
MISSED_MIN = 2048
MISSED_SHARE = 0.5
#: Caches are commonly kept for five minutes after they were last read.
PAUSE = timedelta(minutes=5)
#: So many are listed, the dearest.
SHOWN_MAX = 20
PICO_PER_NANO = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A request that read anew what the one before had sent."""

    at: datetime
    part: str
    missed_tokens: int
    #: What that cost more than reading it from the cache; None where the price isn't known.
    extra_nano: int | None
    #: Since the request before had ended.
    pause: timedelta
    #: What else changed: "another model answered", "another key was used", "a pause", or "".
    change: str


def find_misses(parts: Iterable[Part], prices: Mapping[int, Price]) -> list[Miss]:
    """Return the misses of all parts, oldest first.

    A model of which no request was read from a cache has none to miss. What the upstream didn't count to the end
    tells nothing.
    """
    parts = list(parts)
    cached = {request.upstream_model for part in parts for request in part.requests if request.cache_read_tokens}
    found = [
        _miss(part.name, last, request, prices.get(request.price_version or 0))
        for part in parts
        for one in conversations(request for request in part.requests if request.is_counted)
        for last, request in pairwise(one)
        if request.upstream_model in cached and is_missed(last, request)
    ]
    return sorted(found, key=lambda miss: miss.at)


def is_missed(last: Request, request: Request) -> bool:
    missed = _missed_tokens(last, request)
    return missed >= max(MISSED_MIN, MISSED_SHARE * last.all_input_tokens)


def dearest(misses: Sequence[Miss]) -> list[Miss]:
    """Return the misses to list, oldest first."""
    most = sorted(misses, key=lambda miss: (-(miss.extra_nano or 0), -miss.missed_tokens))[:SHOWN_MAX]
    return sorted(most, key=lambda miss: miss.at)


def _missed_tokens(last: Request, request: Request) -> int:
    return min(last.all_input_tokens, request.all_input_tokens) - request.cache_read_tokens


def _miss(part: str, last: Request, request: Request, price: Price | None) -> Miss:
    missed = _missed_tokens(last, request)
    pause = request.started_at - last.ended_at
    return Miss(
        at=request.started_at,
        part=part,
        missed_tokens=missed,
        extra_nano=None if price is None else _extra_nano(missed, request, price),
        pause=pause,
        change=_change(last, request, pause),
    )


def _extra_nano(missed: int, request: Request, price: Price) -> int:
    """Return what the missed tokens cost more; those that were written to the cache had its price."""
    at = {kind: price.per_token(kind, request.all_input_tokens) for kind in ("input", "cache_read", "cache_write")}
    written = min(missed, request.cache_write_tokens)
    paid = written * at["cache_write"] + (missed - written) * at["input"]
    return max(0, paid - missed * at["cache_read"]) // PICO_PER_NANO


def _change(last: Request, request: Request, pause: timedelta) -> str:
    if request.upstream_model != last.upstream_model:
        return "another model answered"
    if request.credential_id != last.credential_id:
        return "another upstream key was used"
    return "a pause longer than caches are kept" if pause > PAUSE else ""
