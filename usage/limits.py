"""Rate limits of client tokens: requests per minute, tokens per minute, answers at once.

In process, each limit is a bucket that fills evenly (https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm),
and with several workers each grants the whole limit. With a Redis or Valkey the minutes are counted there, by
the `limits` package, for all workers and nodes together. Answers at once are always counted per worker.
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


class Minutes(Protocol):
    """Counts what was taken per minute; in process or elsewhere."""

    async def take(self, name: str, limit: int, amount: int) -> Level:
        """Take `amount` out of `limit` per minute if it is there."""

    def settle(self, name: str, limit: int, *, held: int, used: int) -> None:
        """Correct what was taken to what was used."""


@dataclass(slots=True)
class _Bucket:
    level: float
    at_s: float


@dataclass(slots=True)
class LocalMinutes:
    """Buckets of this process."""

    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    async def take(self, name: str, limit: int, amount: int) -> Level:
        bucket = self._filled(name, limit)
        amount = min(amount, limit)  # more than a minute's worth has to wait for a full bucket, not for ever
        missing = amount - bucket.level
        if missing <= 0:
            bucket.level -= amount
        rate = limit / MINUTE_S
        return Level(
            limit=limit,
            remaining=max(0, int(bucket.level)),
            reset_s=(limit - bucket.level) / rate,
            wait_s=max(0.0, missing / rate),
        )

    def settle(self, name: str, limit: int, *, held: int, used: int) -> None:
        bucket = self._filled(name, limit)
        bucket.level = min(limit, bucket.level + min(held, limit) - used)

    def _filled(self, name: str, limit: int) -> _Bucket:
        now = self.clock()
        bucket = self._buckets.get(name)
        if bucket is None:
            self._forget_full(now)
            bucket = self._buckets[name] = _Bucket(limit, now)
        bucket.level = min(limit, bucket.level + (now - bucket.at_s) * limit / MINUTE_S)
        bucket.at_s = now
        return bucket

    def _forget_full(self, now: float) -> None:
        if len(self._buckets) >= BUCKETS_MAX:
            self._buckets = {name: one for name, one in self._buckets.items() if now - one.at_s < MINUTE_S}


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

    def __init__(self, minutes: Minutes | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._minutes = minutes or LocalMinutes()
        self._now = now
        self._running: dict[int, int] = {}

    async def enter(self, token: TokenEntry, tokens: int) -> Pass:
        """Let a request in that may need so many tokens.

        Raises:
            RateLimited: A limit is reached; nothing was taken.
        """
        if token.rpm is None and token.tpm is None and token.concurrency is None:
            return Pass()
        running = self._running.get(token.id, 0)
        if token.concurrency is not None and running >= token.concurrency:
            raise RateLimited(STREAMS, STREAMS_RETRY_S)
        headers: dict[str, str] = {}
        if token.rpm is not None:
            await self._take(token, REQUESTS, token.rpm, 1, headers)
        if token.tpm is not None:
            try:
                await self._take(token, TOKENS, token.tpm, tokens, headers)
            except RateLimited:
                if token.rpm is not None:
                    self._minutes.settle(_name(token, REQUESTS), token.rpm, held=1, used=0)
                raise
        if token.concurrency is not None:
            self._running[token.id] = self._running.get(token.id, 0) + 1
        return Pass(headers, lambda used: self._left(token, tokens, used))

    async def _take(self, token: TokenEntry, kind: str, limit: int, amount: int, headers: dict[str, str]) -> None:
        level = await self._minutes.take(_name(token, kind), limit, amount)
        reset = self._now() + timedelta(seconds=level.reset_s)
        headers[f"anthropic-ratelimit-{kind}-limit"] = str(level.limit)
        headers[f"anthropic-ratelimit-{kind}-remaining"] = str(level.remaining)
        headers[f"anthropic-ratelimit-{kind}-reset"] = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
        if level.wait_s > 0:
            raise RateLimited(kind, level.wait_s, headers)

    def _left(self, token: TokenEntry, tokens: int, used: int | None) -> None:
        if token.concurrency is not None:
            running = self._running.get(token.id, 1) - 1
            if running > 0:
                self._running[token.id] = running
            else:
                self._running.pop(token.id, None)
        if token.tpm is not None:
            used = tokens if used is None else used
            self._minutes.settle(_name(token, TOKENS), token.tpm, held=tokens, used=used)


def _name(token: TokenEntry, kind: str) -> str:
    return f"{token.id}:{kind}"
