"""The ledger as the relay sees it: admit a request, open each attempt, settle each attempt.

* LedgerError
  x LedgerUnavailable   503: the record isn't in; nothing may be sent upstream
  x OverBudget          402: a budget is spent; says which one and when it starts anew
  x RateLimited         429: the token asks too fast; says when to come again
"""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from usage.records import LedgerError, LedgerUnavailable, OpenRecord, RecordWriter, Settlement, new_record_id

__all__ = [
    "Admission",
    "Ledger",
    "LedgerError",
    "LedgerUnavailable",
    "Member",
    "OpenRecord",
    "OverBudget",
    "RateLimited",
    "Settlement",
    "new_record_id",
]


class Member(Protocol):
    """Whom usage is booked on; `keys.entries.TokenEntry` is one."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def user_id(self) -> int: ...
    @property
    def user_name(self) -> str: ...
    @property
    def team_id(self) -> int | None: ...
    @property
    def team_name(self) -> str: ...


class OverBudget(LedgerError):
    """A budget of the token, its user or its team has no room for the request. Nobody's fault but the budget's."""

    status_hint = 402

    def __init__(self, budget: str, resets_at: datetime | None) -> None:
        super().__init__(f"budget {budget!r} is spent")
        self.budget = budget
        #: Start of the budget's next period, aware UTC; None for a budget in all.
        self.resets_at = resets_at


class RateLimited(LedgerError):
    """The client token asked too often, for too many tokens, or for too many streams at once."""

    status_hint = 429

    def __init__(self, limit: str, retry_after_s: float) -> None:
        super().__init__(f"the token's limit of {limit} is reached")
        #: Which one: `requests`, `tokens` or `streams`.
        self.limit = limit
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class Admission:
    """The right to make one request. Release it once, when the request is over, however it ended."""

    #: `anthropic-ratelimit-*` headers to add to the answer.
    headers: dict[str, str] = field(default_factory=dict)

    def release(self, *, tokens_used: int = 0) -> None:
        """Give back what was held: the stream's place and what is left of the reservation."""


class Ledger:
    """Admits requests and accounts for their attempts, for one worker."""

    def __init__(self, dsn: str, spool_dir: Path, worker_id: str, redis_url: str = "") -> None:
        self._records = RecordWriter(dsn, spool_dir, worker_id)
        self._redis_url = redis_url

    @property
    def is_ready(self) -> bool:
        """Whether new requests can be accounted for."""
        return self._records.is_ready

    async def start(self) -> None:
        await self._records.start()

    async def close(self) -> None:
        """Write everything that is queued, to Postgres or to the spool."""
        await self._records.close()

    async def admit(self, token: Member, alias: str, estimate: int) -> Admission:
        """Let a request in.

        Args:
            token: Whose request it is.
            alias: The model's name as the client sent it.
            estimate: Input tokens and `max_tokens` together.

        Raises:
            OverBudget: A budget has no room.
            RateLimited: A limit of the token is reached.
        """
        return Admission()

    async def open(self, record: OpenRecord) -> None:
        """Commit an open record before its attempt is sent.

        Raises:
            LedgerUnavailable: Nothing may be sent.
        """
        await self._records.open(record)

    def settle(self, settlement: Settlement) -> None:
        """Say how an attempt ended; never raises, never blocks, survives everything but the disk."""
        self._records.settle(settlement)
