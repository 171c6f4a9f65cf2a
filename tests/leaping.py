"""A loop whose clock leaps over each wait: nothing takes its time, and nothing comes late, whatever else the machine does.

For work that waits for nothing but the clock.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own, in seconds since some moment."""

    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def hold_up(self, seconds: float) -> None:
        """Let so much time pass as if something held the loop up."""
        self._clock.now += seconds


class _Clock(selectors.SelectSelector):
    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += max(timeout, 0)
        return ready


def leaping[T](work: Coroutine[Any, Any, T]) -> T:
    """Run something on such a loop."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(work)


def leaps[**P](test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Have a test run on such a loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        leaping(test(*args, **kwargs))

    return run
