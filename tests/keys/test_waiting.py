import asyncio
import random
import selectors
import time
from collections.abc import Coroutine

import pytest

from keys.waiting import WaitingRoom


class Leaping(selectors.SelectSelector):
    """Waits for nothing: the clock leaps to the end of each wait."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None:
            self.now += max(timeout, 0)
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop on whose clock nothing comes late, whatever else the machine does."""

    def __init__(self) -> None:
        self._clock = Leaping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def leaping(work: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(work)


def room(**values: float) -> WaitingRoom:
    return WaitingRoom(jitter=random.Random(1).random, **{"size": 100, "patience_s": 10.0, **values})  # type: ignore[arg-type]  # noqa: S311


def test_two_hundred_that_wait_do_not_wake_at_once() -> None:
    hall = room(size=100, patience_s=5, spacing_s=0.01)
    let_go: list[float] = []

    async def request(began: float) -> bool:
        went = await hall.wait(0.2)
        if went:
            let_go.append(asyncio.get_running_loop().time() - began)
        return went

    async def all_ask() -> None:
        now = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*(request(now) for _ in range(200)))
        assert answers.count(True) == 100

    leaping(all_ask())

    assert min(let_go) >= 0.2 - 1e-6
    # One each ten to twenty milliseconds: ten in any hundred at most.
    assert max(sum(start <= at < start + 0.1 for at in let_go) for start in let_go) <= 10
    assert hall.waiting == 0


@pytest.mark.parametrize("retry_after_s", [None, 10.1, 3600])
async def test_who_would_wait_too_long_is_told_at_once(retry_after_s: float | None) -> None:
    began = time.monotonic()

    assert not await room().wait(retry_after_s)
    assert time.monotonic() - began < 5


def test_patience_counts_from_the_first_wait() -> None:
    async def wait_twice() -> None:
        hall = room(patience_s=0.3)
        since = asyncio.get_running_loop().time()

        assert await hall.wait(0.2, since=since)
        assert not await hall.wait(0.2, since=since)

    leaping(wait_twice())


async def test_who_leaves_makes_room() -> None:
    hall = room(size=1)
    waiting = asyncio.create_task(hall.wait(5))
    await asyncio.sleep(0)
    assert not await hall.wait(0.1)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert hall.waiting == 0
