"""What tests wait for, so that neither a slow machine nor the time of day fails them."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: No wait of a test is given up earlier: one that succeeds costs nothing.
PATIENCE_S = 30
#: Deadlines of the ledger that a slow machine may miss.
DEADLINES = (
    "usage.records.OPEN_TIMEOUT_S",
    "usage.together.COUNT_S",
    "usage.shared_limits.STORE_S",
    "usage.credential_limits.STORE_S",
    "usage.summaries.READ_TIMEOUT_S",
)
#: So much of an hour a test may need that puts something into "this hour" or "today".
LEFT_OF_HOUR_S = 25


def wait_for_a_whole_hour() -> None:
    """Let an hour that is about to end be over, and with it its day and month."""
    left_s = 3600 - time.time() % 3600
    if left_s < LEFT_OF_HOUR_S:
        time.sleep(left_s)


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until it holds; fail when it doesn't for long."""
    give_up, pause_s = time.monotonic() + PATIENCE_S, 0.005
    while not condition():
        assert time.monotonic() < give_up, f"not within {PATIENCE_S} s"
        await asyncio.sleep(pause_s)
        pause_s = min(0.1, pause_s * 1.2)


@contextmanager
def stopped_clock() -> Iterator[Callable[[float], None]]:
    """Stop the running event loop's clock, so that no timer ends; give what sets it forward by some seconds."""
    loop = asyncio.get_running_loop()
    true_time, now = loop.time, loop.time()

    def forward(seconds: float) -> None:
        nonlocal now
        now += seconds

    loop.time = lambda: now  # type: ignore[method-assign]
    try:
        yield forward
    finally:
        loop.time = true_time  # type: ignore[method-assign]
