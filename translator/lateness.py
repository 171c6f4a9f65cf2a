"""How late a worker's event loop is: what holds it up holds up every call of the worker.

A task sleeps, and looks by how much it woke too late. It costs requests nothing, and needs no thread.
"""

import asyncio
import logging
import time

from keys.tasks import end_task
from translator.metrics import LATENESS

logger = logging.getLogger(__name__)

EVERY_S = 0.25
#: Later than this is worth a warning: one in so many seconds, with the longest since the last one.
WARN_ABOVE_S = 1.0
WARN_EVERY_S = 60.0
#: The gauge shows the longest of the window that runs and the one before, so that who asks once a minute misses nothing.
WINDOW_S = 60.0


class Lateness:
    """Measures how late the running loop is."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._window_ends = 0.0
        self._of_window_s = 0.0
        self._of_last_window_s = 0.0
        self._unsaid_s = 0.0
        self._silent_until = 0.0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="loop's lateness")

    async def close(self) -> None:
        await end_task(self._task)

    async def _run(self) -> None:
        while True:
            wake_at = time.monotonic() + EVERY_S
            await asyncio.sleep(EVERY_S)
            now = time.monotonic()
            self._show(now - wake_at, now)
            self._warn(now - wake_at, now)

    def _show(self, late_s: float, now: float) -> None:
        if now >= self._window_ends:
            self._window_ends = now + WINDOW_S
            self._of_last_window_s, self._of_window_s = self._of_window_s, 0.0
        self._of_window_s = max(self._of_window_s, late_s)
        LATENESS.set(max(self._of_window_s, self._of_last_window_s))

    def _warn(self, late_s: float, now: float) -> None:
        self._unsaid_s = max(self._unsaid_s, late_s)
        if self._unsaid_s > WARN_ABOVE_S and now >= self._silent_until:
            logger.warning("the event loop was held up: %.1f s at the longest", self._unsaid_s)
            self._unsaid_s, self._silent_until = 0.0, now + WARN_EVERY_S
