"""How much may be tried again: a share of the calls, so that a failing upstream is not stormed."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class RetryBudget:
    """Each call earns a share of a retry; each retry costs one."""

    share: float = 0.2
    #: Few calls may be tried again freely; many retries are never saved up.
    balance: float = 3.0
    balance_max: float = 20.0

    def earn(self) -> None:
        """Count a client's call."""
        self.balance = min(self.balance + self.share, self.balance_max)

    def spend(self) -> bool:
        """Take one retry; False when there is none left."""
        if self.balance < 1:
            return False
        self.balance -= 1
        return True
