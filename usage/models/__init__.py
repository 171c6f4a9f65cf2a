"""The ledger's tables.

Ids of members, tokens, upstreams and credentials are plain numbers with the names beside them, not foreign keys:
what was deleted stays in the reports under the name it had. Money is integer 1e-9 USD.
"""

from usage.models.budgets import Budget, Reservation
from usage.models.calibration import InputCalibration
from usage.models.history import PoolChange
from usage.models.minutes import TokenMinute, TokenRunning
from usage.models.pool_warnings import PoolWarning
from usage.models.prices import Price
from usage.models.records import UsageRecord
from usage.models.saved import SavedReport
from usage.models.summaries import ConversationSummary
from usage.models.sums import CredentialDay, CrossedDay, UsageDay, UsageHour
from usage.models.workers import IdempotencyKey, WorkerLease

__all__ = [
    "Budget",
    "ConversationSummary",
    "CredentialDay",
    "CrossedDay",
    "IdempotencyKey",
    "InputCalibration",
    "PoolChange",
    "PoolWarning",
    "Price",
    "Reservation",
    "SavedReport",
    "TokenMinute",
    "TokenRunning",
    "UsageDay",
    "UsageHour",
    "UsageRecord",
    "WorkerLease",
]
