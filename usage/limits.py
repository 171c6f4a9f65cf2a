"""Rate limits of client tokens: requests per minute, tokens per minute, answers at once.

A minute is a bucket that fills evenly (https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm). A worker that is alone
counts in memory; several count together in Postgres (`usage.together`), or in a Redis (`usage.shared_limits`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from keys.entries import TokenEntry
from usage.errors import RateLimited

MINUTE_S = 60.0
#: How soon a place may be free again, where no clock says it.
STREAMS_RETRY_S = 1.0
BUCKETS_MAX = 10_000
REQUESTS, TOKENS, STREAMS = "requests", "tokens", "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How full a limit is."""

    limit: int
    remaining: int
    #: Until it is all there again, and until what was asked for is there; 0 when it was granted.
    reset_s: float
    wait_s: float


def level_of(limit: int, left: float, asked: float) -> Level:
    """Return the level of a bucket in which so much is left, where so much of it was asked for; 0 when it was given."""
    rate = limit / MINUTE_S
    return Level(
        limit=limit,
        remaining=max(0, int(left)),
        reset_s=(limit - left) / rate,
        wait_s=max(0.0, (asked - left) / rate),
    )


#: Levels by limit: REQUESTS, TOKENS, STREAMS, as far as the token has them.
Levels = dict[str, Level]


class Counts(Protocol):
    """Counts what tokens take, here or for all workers."""

    async def take(self, token: TokenEntry, tokens: int) -> Levels:
        """Take a request, its tokens, and a place among the answers at once: all of it if it is there, or nothing."""

    def leave(self, token: TokenEntry, *, held: int, used: int) -> None:
        """Give the place back, and correct the tokens that were taken to those that were used."""


@dataclass(slots=True)
class Running:
    """This worker's running answers by token. A call that takes no place doesn't count: its token has no such limit."""

    _counts: dict[int, int] = field(default_factory=dict)

    def of(self, token: TokenEntry) -> int:
        return self._counts.get(token.id, 0)

    def enter(self, token: TokenEntry) -> None:
        if token.concurrency is not None:
            self._counts[token.id] = self.of(token) + 1

    def leave(self, token: TokenEntry) -> None:
        if token.concurrency is None:
            return
        if (running := self.of(token) - 1) > 0:
            self._counts[token.id] = running
        else:
            self._counts.pop(token.id, None)


def streams_level(limit: int, running: int) -> Level:
    """Return the level of the answers at once while so many run."""
    return Level(
        limit=limit,
        remaining=max(0, limit - running),
        reset_s=0.0,
        wait_s=STREAMS_RETRY_S if running >= limit else 0.0,
    )


@dataclass(slots=True)
class _Bucket:
    level: float
    at_s: float


@dataclass(slots=True)
class LocalCounts:
    """What this process counts by itself."""

    clock: Callable[[], float] = time.monotonic
    running: Running = field(default_factory=Running)
    _buckets: dict[tuple[int, str], _Bucket] = field(default_factory=dict)

    async def take(self, token: TokenEntry, tokens: int) -> Levels:
        asked = asked_of(token, tokens)
        buckets = {kind: self._filled(token, kind, limit) for kind, (limit, _) in asked.items()}
        is_granted = all(buckets[kind].level >= amount for kind, (_, amount) in asked.items())
        levels = {}
        if token.concurrency is not None:
            levels[STREAMS] = streams_level(token.concurrency, self.running.of(token))
            is_granted &= levels[STREAMS].wait_s == 0
        for kind, (limit, amount) in asked.items():
            if is_granted:
                buckets[kind].level -= amount
            levels[kind] = level_of(limit, buckets[kind].level, 0 if is_granted else amount)
        if is_granted:
            self.running.enter(token)
        return levels

    def leave(self, token: TokenEntry, *, held: int, used: int) -> None:
        self.running.leave(token)
        if token.tpm is not None:
            bucket = self._filled(token, TOKENS, token.tpm)
            bucket.level = min(token.tpm, bucket.level + min(held, token.tpm) - used)

    def _filled(self, token: TokenEntry, kind: str, limit: int) -> _Bucket:
        now = self.clock()
        bucket = self._buckets.get((token.id, kind))
        if bucket is None:
            self._forget_full(now)
            bucket = self._buckets[token.id, kind] = _Bucket(limit, now)
        bucket.level = min(limit, bucket.level + (now - bucket.at_s) * limit / MINUTE_S)
        bucket.at_s = now
        return bucket

    def _forget_full(self, now: float) -> None:
        if len(self._buckets) >= BUCKETS_MAX:
            self._buckets = {name: one for name, one in self._buckets.items() if now - one.at_s < MINUTE_S}


def asked_of(token: TokenEntry, tokens: int) -> dict[str, tuple[int, int]]:
    """Return, per limit by the minute, the limit and what a request takes of it.

    More than a minute's worth has to wait for a full bucket, not for ever.
    """
    asked = {}
    if token.rpm is not None:
        asked[REQUESTS] = (token.rpm, 1)
    if token.tpm is not None:
        asked[TOKENS] = (token.tpm, min(tokens, token.tpm))
    return asked


@dataclass(slots=True)
class Pass:
    """What a request holds of its token's limits. Leave once, when the request is over."""

    headers: dict[str, str] = field(default_factory=dict)
    _leave: Callable[[int | None], None] | None = None

    def leave(self, tokens_used: int | None) -> None:
        """Give the place back, and the tokens that were not used; None: as many as estimated."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave(tokens_used)


class RateLimits:
    """The limits of all client tokens, for one worker."""

    def __init__(self, counts: Counts | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._counts = counts or LocalCounts()
        self._now = now

    async def enter(self, token: TokenEntry, tokens: int) -> Pass:
        """Let a request in that may need so many tokens.

        Raises:
            RateLimited: A limit is reached; nothing was taken.
        """
        if token.rpm is None and token.tpm is None and token.concurrency is None:
            return Pass()
        levels = await self._counts.take(token, tokens)
        headers = self._headers(levels)
        for kind in (STREAMS, REQUESTS, TOKENS):
            if kind in levels and levels[kind].wait_s > 0:
                raise RateLimited(kind, levels[kind].wait_s, headers)
        return Pass(headers, lambda used: self._counts.leave(token, held=tokens, used=tokens if used is None else used))

    def _headers(self, levels: Levels) -> dict[str, str]:
        headers = {}
        for kind in (REQUESTS, TOKENS):
            if (level := levels.get(kind)) is not None:
                reset = self._now() + timedelta(seconds=level.reset_s)
                headers[f"anthropic-ratelimit-{kind}-limit"] = str(level.limit)
                headers[f"anthropic-ratelimit-{kind}-remaining"] = str(level.remaining)
                headers[f"anthropic-ratelimit-{kind}-reset"] = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
        return headers
