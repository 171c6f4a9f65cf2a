"""Rate limits counted in Redis or Valkey, for all workers and nodes together. Needs the `redis` extra."""

import asyncio
import logging
import time

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import Storage
from limits.aio.strategies import RateLimiter, SlidingWindowCounterRateLimiter
from limits.errors import StorageError
from limits.storage import storage_from_string

from keys.entries import TokenEntry
from usage.limits import MINUTE_S, STREAMS, TOKENS, Level, Levels, LocalCounts, Running, asked_of, streams_level

logger = logging.getLogger(__name__)

#: How long an answer of the store may take.
STORE_S = 1.0


class RedisCounts:
    """Minutes as sliding windows; answers at once by worker. While the store is away, each worker counts for itself."""

    def __init__(self, storage: Storage) -> None:
        self._windows = SlidingWindowCounterRateLimiter(storage)
        self._running = Running()
        self._local = LocalCounts(running=self._running)
        self._debts: set[asyncio.Task[None]] = set()

    async def take(self, token: TokenEntry, tokens: int) -> Levels:
        """Take it if it is there. Tokens are tested at first, and taken when it is known how many were used.

        A request that is refused for its tokens stays counted as one.
        """
        levels = {}
        if token.concurrency is not None:
            levels[STREAMS] = streams_level(token.concurrency, self._running.of(token))
            if levels[STREAMS].wait_s > 0:
                return levels
        try:
            async with asyncio.timeout(STORE_S):
                for kind, (limit, amount) in asked_of(token, tokens).items():
                    levels[kind] = await self._level(f"{token.id}:{kind}", kind, limit, amount)
                    if levels[kind].wait_s > 0:
                        return levels
        except (StorageError, OSError) as exc:
            logger.warning("the shared rate limits are away, each worker counts for itself: %s", exc)
            return await self._local.take(token, tokens)
        self._running.enter(token)
        return levels

    async def _level(self, name: str, kind: str, limit: int, amount: int) -> Level:
        item = RateLimitItemPerMinute(limit, namespace="bridge")
        ask = self._windows.test if kind == TOKENS else self._windows.hit
        granted = await ask(item, name, cost=amount)
        stats = await self._windows.get_window_stats(item, name)
        reset_s = max(0.0, stats.reset_time - time.time())
        wait_s = 0.0 if granted else min(max(reset_s, 1.0), MINUTE_S)
        return Level(limit=limit, remaining=max(0, stats.remaining), reset_s=reset_s, wait_s=wait_s)

    def leave(self, token: TokenEntry, *, held: int, used: int) -> None:
        """Count the tokens that were used."""
        self._running.leave(token)
        if token.tpm is None or used <= 0:
            return
        task = asyncio.get_running_loop().create_task(self._hit(f"{token.id}:{TOKENS}", token.tpm, used))
        self._debts.add(task)
        task.add_done_callback(self._debts.discard)

    async def _hit(self, name: str, limit: int, used: int) -> None:
        item = RateLimitItemPerMinute(limit, namespace="bridge")
        try:
            async with asyncio.timeout(STORE_S):
                await count_up_to_limit(self._windows, item, name, amount=used)
        except (StorageError, OSError) as exc:
            logger.warning("%s tokens went uncounted: %s", used, exc)


async def count_up_to_limit(windows: RateLimiter, item: RateLimitItem, *name: str, amount: int) -> None:
    """Count what was used already. The store counts nothing beyond a limit, so then the rest of it is used up."""
    if await windows.hit(item, *name, cost=min(amount, item.amount)):
        return
    left = (await windows.get_window_stats(item, *name)).remaining
    if left > 0:
        await windows.hit(item, *name, cost=min(left, amount))


def connect(url: str) -> Storage:
    """Return the store behind a `redis://` or `valkey://` URL; it connects when it is first asked."""
    scheme, rest = url.split("://", 1)
    storage = storage_from_string(f"async+{scheme}://{rest}", implementation="redispy", wrap_exceptions=True)
    assert isinstance(storage, Storage)  # noqa: S101  (every async+ scheme gives one)
    return storage
