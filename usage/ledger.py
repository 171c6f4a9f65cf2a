"""The ledger as the relay sees it: admit a request, open each attempt, settle each attempt, release the request.

What can go wrong stands in `usage.errors`.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

from django.utils import timezone

from keys.entries import TokenEntry
from usage.budgets import BudgetBook, Estimate, Place
from usage.cleaning import clean_text
from usage.errors import BudgetHeld, LedgerError, LedgerUnavailable, OverBudget, RateLimited
from usage.keeper import Keeper
from usage.limits import Counts, Pass, RateLimits
from usage.records import OpenRecord, RecordWriter, Settlement, new_record_id
from usage.rows import OPEN_TEXTS
from usage.together import SharedCounts

__all__ = [
    "Admission",
    "BudgetHeld",
    "Ledger",
    "LedgerError",
    "LedgerUnavailable",
    "OpenRecord",
    "OverBudget",
    "RateLimited",
    "Settlement",
    "new_record_id",
]

logger = logging.getLogger(__name__)


class Admission:
    """The right to make one request. Release it once, when the request is over, however it ended."""

    def __init__(
        self,
        taken: Pass,
        writer: RecordWriter,
        reservation: UUID | None,
        reserve: Callable[[Estimate], Awaitable[UUID | None]],
    ) -> None:
        #: `anthropic-ratelimit-*` headers to add to the answer.
        self.headers = taken.headers
        self._pass = taken
        self._writer = writer
        self._reservation = reservation
        self._reserve = reserve

    async def renew(self, input_tokens: int, output_tokens: int, *, place: Place) -> bool:
        """Hold what one more attempt may need, in place of what was held for those that are settled.

        Returns:
            False where a budget has no room for it, or can't be asked: nothing is held any more.
        """
        self._let_go()
        try:
            self._reservation = await self._reserve(
                Estimate(input_tokens=input_tokens, output_tokens=output_tokens, places=(place,))
            )
        except LedgerError:
            return False
        return True

    def release(self, *, tokens_used: int | None = None) -> None:
        """Give back what was held: the place, the tokens that were not used, the reservation. Never raises.

        Called right after the last `settle`, it goes into the same transaction.

        Args:
            tokens_used: Input and output of all attempts; None when unknown.
        """
        self._pass.leave(tokens_used)
        self._let_go()

    def _let_go(self) -> None:
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            self._writer.release(reservation)


class Ledger:
    """Admits requests and accounts for their attempts, for one worker."""

    def __init__(self, dsn: str, spool_dir: Path, worker_id: str, redis_url: str = "") -> None:
        # A process id comes again, in a container at each start: a writer's name must not.
        unique = f"{clean_text(worker_id, 48).replace('/', '_')}-{secrets.token_hex(4)}"
        self._writer = RecordWriter(dsn, spool_dir, unique)
        self._book = BudgetBook()
        self._keeper = Keeper(dsn, self._writer, self._book)
        self._together = SharedCounts(dsn, unique, is_alone=lambda: self._keeper.is_alone)
        self._limits = RateLimits(_counts_at(redis_url) or self._together)

    @property
    def is_ready(self) -> bool:
        """Whether new requests can be accounted for."""
        return self._writer.is_ready and self._book.is_read

    @property
    def worker_id(self) -> str:
        """The name under which this worker's records stand and its lease is kept."""
        return self._writer.worker_id

    @property
    def backlog(self) -> int:
        """How many ends of attempts are not in Postgres yet."""
        return self._writer.backlog

    async def start(self) -> None:
        """Begin to write and to keep house. Postgres may be away: then nothing is admitted until it is there."""
        await self._writer.start()
        await self._keeper.start()

    async def close(self) -> None:
        """Write everything that is queued, to Postgres or to the spool."""
        await self._writer.close()
        await self._together.close()
        await self._keeper.close()

    async def admit(
        self, token: TokenEntry, alias: str, estimate: int, *, max_tokens: int = 0, places: Sequence[Place] = ()
    ) -> Admission:
        """Let a request in.

        Args:
            token: Whose request it is.
            alias: The model's name as the client sent it.
            estimate: Input tokens and `max_tokens` together.
            max_tokens: The part of the estimate that is output; it may cost more than input.
            places: Upstream ids and models that may answer; what a budget in USD reserves depends on their prices.

        Raises:
            OverBudget: A budget has no room; `BudgetHeld` if it will have some when running requests end.
            RateLimited: A limit of the token is reached.
            LedgerUnavailable: A budget can't be asked.
        """
        taken = await self._limits.enter(token, estimate)
        try:
            need = Estimate(input_tokens=estimate - max_tokens, output_tokens=max_tokens, places=tuple(places))
            reserve = partial(self._reserve, token, clean_text(alias, OPEN_TEXTS["alias"]))
            return Admission(taken, self._writer, await reserve(need), reserve)
        except BaseException:
            taken.leave(0)
            raise

    async def open(self, record: OpenRecord) -> None:
        """Commit an open record before its attempt is sent.

        Raises:
            LedgerUnavailable: Nothing may be sent.
        """
        await self._writer.open(record)

    def settle(self, settlement: Settlement) -> None:
        """Say how an attempt ended; never raises, never blocks, survives everything but the disk."""
        self._writer.settle(settlement)

    async def _reserve(self, token: TokenEntry, alias: str, need: Estimate) -> UUID | None:
        amounts = self._book.amounts(token, alias, need)
        if not amounts:
            return None
        admission = new_record_id()
        refused = await self._writer.reserve(admission, amounts)
        if refused is not None:
            needed = dict(amounts)[refused.budget]
            raise self._book.refusal(refused.budget, timezone.now(), left=refused.left, needed=needed)
        return admission


def _counts_at(redis_url: str) -> Counts | None:
    if not redis_url:
        return None
    from usage.shared_limits import RedisCounts, connect  # the `redis` extra may not be installed

    return RedisCounts(connect(redis_url))
