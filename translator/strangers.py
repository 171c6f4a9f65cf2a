"""How often an address may come with a token that isn't one: enough for a typing mistake, not for guessing.

Only failures are counted, so good tokens pass from the same address all the while. The address is the peer's of the
connection, never one that a header claims.
"""

from collections import OrderedDict
from dataclasses import dataclass

FAILURES_MAX = 30
WINDOW_S = 60.0
ADDRESSES_MAX = 10_000


@dataclass(slots=True)
class _Count:
    since: float
    failures: int = 0


class Strangers:
    """Counts failures by address, in this process."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    def note(self, address: str, now: float) -> float:
        """Count a failure; return how many seconds the address should wait, 0 while it is within bounds."""
        count = self._counts.pop(address, None)
        if count is None or now - count.since >= WINDOW_S:
            count = _Count(since=now)
        count.failures += 1
        self._counts[address] = count
        if len(self._counts) > ADDRESSES_MAX:
            self._counts.popitem(last=False)
        return count.since + WINDOW_S - now if count.failures > FAILURES_MAX else 0.0
