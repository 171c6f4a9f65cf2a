"""Limits of credentials counted in Redis or Valkey, for all workers and nodes together. Needs the `redis` extra.

Requests are a log of the last minute, so no minute ever holds more of them than the limit. Tokens are a sliding
window: the estimate is counted before the send, what was used beyond it afterwards.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.aio.storage import Storage
from limits.aio.strategies import MovingWindowRateLimiter, RateLimiter, SlidingWindowCounterRateLimiter
from limits.errors import StorageError

from keys.entries import CredentialEntry
from usage.limits import MINUTE_S
from usage.shared_limits import STORE_S, count_up_to_limit

logger = logging.getLogger(__name__)

NAMESPACE = "bridge-credential"
#: How long a store that failed is left alone.
AWAY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """A credential has no room."""

    wait_s: float
    #: For requests of so many tokens or more; 0 for any.
    tokens: int


class CredentialLimits:
    """What all workers have sent with each credential in the last minute.

    Args:
        storage: Where it is counted.
        tell: Called with whether the store counts; while it is away each worker keeps to its share.
    """

    def __init__(self, storage: Storage, tell: Callable[[bool], None]) -> None:
        self._requests = MovingWindowRateLimiter(storage)
        self._tokens = SlidingWindowCounterRateLimiter(storage)
        self._tell = tell
        self._away_until = 0.0
        self._debts: set[asyncio.Task[None]] = set()
        tell(True)

    async def take(self, credential: CredentialEntry, tokens: int) -> Full | None:
        """Count a request of about so many tokens; say so when there is no room for it, and count nothing."""
        if (credential.rpm is None and credential.tpm is None) or time.monotonic() < self._away_until:
            return None
        try:
            async with asyncio.timeout(STORE_S):
                full = await self._take(credential, tokens)
        except (StorageError, OSError) as exc:
            self._away_until = time.monotonic() + AWAY_S
            self._tell(False)
            logger.warning("limits of credentials are not counted together now: %s", type(exc).__name__)
            return None
        self._tell(True)
        return full

    def settle(self, credential: CredentialEntry, *, held: int, used: int) -> None:
        """Count what an attempt used beyond its estimate. Less than that stays counted as estimated."""
        if credential.tpm is None or used <= held:
            return
        task = asyncio.get_running_loop().create_task(self._add(credential.id, credential.tpm, used - held))
        self._debts.add(task)
        task.add_done_callback(self._debts.discard)

    async def _take(self, credential: CredentialEntry, tokens: int) -> Full | None:
        name = str(credential.id)
        per_minute = RateLimitItemPerMinute(credential.rpm or 1, namespace=NAMESPACE)
        if credential.tpm is not None:
            # A request larger than the whole allowance goes when nothing else does, rather than never.
            cost = max(1, min(tokens, credential.tpm))
            allowance = RateLimitItemPerMinute(credential.tpm, namespace=NAMESPACE)
            if credential.rpm is not None and not await self._requests.test(per_minute, name, "requests"):
                return Full(wait_s=await _wait_s(self._requests, per_minute, name, "requests"), tokens=0)
            if not await self._tokens.hit(allowance, name, "tokens", cost=cost):
                return Full(wait_s=await _wait_s(self._tokens, allowance, name, "tokens"), tokens=tokens)
        if credential.rpm is not None and not await self._requests.hit(per_minute, name, "requests"):
            return Full(wait_s=await _wait_s(self._requests, per_minute, name, "requests"), tokens=0)
        return None

    async def _add(self, credential_id: int, tpm: int, tokens: int) -> None:
        allowance = RateLimitItemPerMinute(tpm, namespace=NAMESPACE)
        try:
            async with asyncio.timeout(STORE_S):
                await count_up_to_limit(self._tokens, allowance, str(credential_id), "tokens", amount=tokens)
        except (StorageError, OSError) as exc:
            logger.warning("%s tokens of a credential went uncounted: %s", tokens, type(exc).__name__)


async def _wait_s(windows: RateLimiter, item: RateLimitItem, *name: str) -> float:
    reset_time = (await windows.get_window_stats(item, *name)).reset_time
    return min(max(reset_time - time.time(), 1.0), MINUTE_S)
