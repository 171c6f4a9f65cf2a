"""Large bodies wait in a queue of their own, of bounded length, and in nobody else's way."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from translator.offload import INSIDE_BYTES_MAX, LARGE_BYTES, THREADS, _inside, is_crowded, off_loop

INSIDE_MAX = 20
SIZE = INSIDE_BYTES_MAX // INSIDE_MAX + 1


@pytest.fixture
async def gate() -> AsyncIterator[threading.Event]:
    """What keeps work from ending; open again at the end of the test."""
    event = threading.Event()
    yield event
    event.set()
    await empty()


async def empty() -> None:
    async with asyncio.timeout(30):
        while _inside:  # noqa: ASYNC110  (it tells nobody)
            await asyncio.sleep(0.01)


async def test_small_work_is_done_where_it_is() -> None:
    assert await off_loop(LARGE_BYTES - 1, threading.get_ident) == threading.get_ident()
    assert await off_loop(LARGE_BYTES, threading.get_ident) != threading.get_ident()


async def test_work_that_waits_leaves_room_for_names_and_spools(gate: threading.Event) -> None:
    waiting = [asyncio.create_task(off_loop(SIZE, gate.wait)) for _ in range(INSIDE_MAX)]
    await asyncio.sleep(0)

    assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 30) == "free"

    gate.set()
    assert all(await asyncio.gather(*waiting))


async def test_one_too_many_is_told_so_and_small_ones_are_not(gate: threading.Event) -> None:
    waiting = [asyncio.create_task(off_loop(SIZE, gate.wait)) for _ in range(INSIDE_MAX - 1)]
    await asyncio.sleep(0)
    assert not is_crowded(LARGE_BYTES)
    waiting.append(asyncio.create_task(off_loop(SIZE, gate.wait)))
    await asyncio.sleep(0)

    assert is_crowded(LARGE_BYTES)
    assert not is_crowded(LARGE_BYTES - 1)

    gate.set()
    await asyncio.gather(*waiting)
    assert not is_crowded(LARGE_BYTES)


async def test_work_whose_client_is_gone_counts_until_its_thread_is_free(gate: threading.Event) -> None:
    begun = threading.Semaphore(0)

    def work() -> bool:
        begun.release()
        return gate.wait()

    waiting = [asyncio.create_task(off_loop(SIZE, work)) for _ in range(THREADS)]
    later = [asyncio.create_task(off_loop(SIZE, gate.wait)) for _ in range(INSIDE_MAX - THREADS)]
    await asyncio.sleep(0)
    for _ in range(THREADS):
        assert await asyncio.to_thread(begun.acquire, timeout=30)
    for task in waiting:
        task.cancel()
    await asyncio.sleep(0)
    assert is_crowded(LARGE_BYTES)

    later[-1].cancel()
    await asyncio.sleep(0)

    assert not is_crowded(LARGE_BYTES), "what no thread had begun is gone at once"
    for task in later:
        task.cancel()
