"""What the ledger may say no with.

* LedgerError
  x LedgerUnavailable   503: the record isn't in; nothing may be sent upstream
  x OverBudget          402: a budget is spent; says which one and when it starts anew
  x RateLimited         429: the token asks too fast; says when to come again
"""

from collections.abc import Mapping
from datetime import datetime


class LedgerError(Exception):
    """Something about the ledger; `status_hint` is what the client should be told."""

    status_hint = 503


class LedgerUnavailable(LedgerError):
    """The record or the reservation could not be committed in time. Our fault, and worth another try."""

    retry_after_s = 1


class OverBudget(LedgerError):
    """A budget of the token, its user or its team has no room for the request. Nobody's fault but the budget's."""

    status_hint = 402

    def __init__(self, budget: str, resets_at: datetime | None) -> None:
        super().__init__(f"budget {budget!r} is spent")
        self.budget = budget
        #: Start of the budget's next period, aware UTC; None for a budget in all.
        self.resets_at = resets_at


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
