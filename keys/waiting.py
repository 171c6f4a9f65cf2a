"""A bounded queue behind the gate: requests that find every credential resting may wait a little instead of failing.

They are let go one after the other, spaced and with jitter, so that a credential that wakes is not met by all at once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

#: Between two that are let go, about.
SPACING_S = 0.05
#: Each is let go later by up to this share of the spacing.
JITTER_SHARE = 1.0


@dataclass(slots=True, kw_only=True)
class WaitingRoom:
    """Where requests of one worker wait for a credential."""

    jitter: Callable[[], float]
    size: int
    #: How long a request waits at most, all in all; 0 for not at all.
    patience_s: float
    spacing_s: float = SPACING_S
    waiting: int = field(default=0, init=False)
    #: When the last one of the line is let go, on the loop's clock.
    _last_at: float = field(default=0.0, init=False)

    @property
    def is_open(self) -> bool:
        return self.size > 0 and self.patience_s > 0

    async def wait(self, retry_after_s: float | None, *, since: float | None = None) -> bool:
        """Wait for one's turn; False at once when there is no room, no time known, or it would take too long.

        Args:
            retry_after_s: What the refusal said.
            since: When the request began to wait, on the loop's clock; now when left out.
        """
        now = asyncio.get_running_loop().time()
        if retry_after_s is None or self.waiting >= self.size:
            return False
        stretch = 1 + self.jitter() * JITTER_SHARE
        turn_at = max(now + retry_after_s, self._last_at + self.spacing_s * stretch)
        if turn_at > (now if since is None else since) + self.patience_s:
            return False
        self._last_at = turn_at
        self.waiting += 1
        try:
            await asyncio.sleep(turn_at - now)
        finally:
            self.waiting -= 1
        return True
