import asyncio
import random
import time

import pytest

from keys.waiting import WaitingRoom
from tests.leaping import leaps


def room(**values: float) -> WaitingRoom:
    return WaitingRoom(jitter=random.Random(1).random, **{"size": 100, "patience_s": 10.0, **values})  # type: ignore[arg-type]  # noqa: S311


@leaps
async def test_two_hundred_that_wait_do_not_wake_at_once() -> None:
    hall = room(size=100, patience_s=5, spacing_s=0.01)
    loop = asyncio.get_running_loop()
    began = loop.time()
    let_go: list[float] = []

    async def request() -> bool:
        went = await hall.wait(0.2)
        if went:
            let_go.append(loop.time() - began)
        return went

    answers = await asyncio.gather(*(request() for _ in range(200)))

    assert answers.count(True) == 100
    assert min(let_go) >= 0.2 - 1e-6
    # One each ten to twenty milliseconds: ten in any hundred at most.
    assert max(sum(start <= at < start + 0.1 for at in let_go) for start in let_go) <= 10
    assert hall.waiting == 0


@pytest.mark.parametrize("retry_after_s", [None, 10.1, 3600])
async def test_who_would_wait_too_long_is_told_at_once(retry_after_s: float | None) -> None:
    began = time.monotonic()

    assert not await room().wait(retry_after_s)
    assert time.monotonic() - began < 5


@leaps
async def test_patience_counts_from_the_first_wait() -> None:
    hall = room(patience_s=0.3)
    since = asyncio.get_running_loop().time()

    assert await hall.wait(0.2, since=since)
    assert not await hall.wait(0.2, since=since)


async def test_who_leaves_makes_room() -> None:
    hall = room(size=1)
    waiting = asyncio.create_task(hall.wait(5))
    await asyncio.sleep(0)
    assert not await hall.wait(0.1)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert hall.waiting == 0
