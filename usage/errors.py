"""What the ledger may say no with.

* LedgerError
  x LedgerUnavailable   503: the record isn't in; nothing may be sent upstream
  x OverBudget          402: a budget has no room; says which one, what is left of it and when it starts anew
  x BudgetHeld          402 too, but worth another try: a budget has no room until running requests end
  x RateLimited         429: the token asks too fast; says when to come again
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


class LedgerError(Exception):
    """Something about the ledger; `status_hint` is what the client should be told."""

    status_hint = 503


class LedgerUnavailable(LedgerError):
    """The record or the reservation could not be committed in time. Our fault, and worth another try."""

    retry_after_s = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a budget had left for a request, in its unit: 1e-9 USD or tokens."""

    unit: str = "usd"
    #: Not spent; what running requests hold is in it.
    left: int = 0
    #: What the request may need at most.
    needed: int = 0

    @property
    def is_held(self) -> bool:
        """Whether there is room as soon as running requests give back what they don't use."""
        return self.left > 0 and self.needed <= self.left


class OverBudget(LedgerError):
    """A budget of the token, its user or its team has no room for the request. Nobody's fault but the budget's."""

    status_hint = 402

    def __init__(self, budget: str, resets_at: datetime | None, room: Room | None = None) -> None:
        super().__init__(f"budget {budget!r} has no room")
        self.budget = budget
        #: Start of the budget's next period, aware UTC; None for a budget in all.
        self.resets_at = resets_at
        self.room = room or Room()


class BudgetHeld(OverBudget):
    """All that is left of a budget is held by running requests, most of which need less: worth another try."""

    retry_after_s = 2


class RateLimited(LedgerError):
    """The client token asked too often, for too many tokens, or for too many answers at once."""

    status_hint = 429

    def __init__(self, limit: str, retry_after_s: float, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"the token's limit of {limit} is reached")
        #: Which one: `requests`, `tokens` or `streams`.
        self.limit = limit
        self.retry_after_s = retry_after_s
        #: `anthropic-ratelimit-*`, for the refusal.
        self.headers: Mapping[str, str] = headers or {}
