import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime

import pytest
import time_machine
from limits.aio.storage import MemoryStorage, Storage

from tests.keys.pools import credential
from usage.credential_limits import CredentialLimits
from usage.shared_limits import connect

Limits = Callable[[], CredentialLimits]


def ignore(_: bool) -> None:
    pass


@pytest.fixture
def minute() -> Iterator[None]:
    """A minute of the clock that has just begun: when one ends, what was counted in it weighs a little less."""
    with time_machine.travel(datetime(2030, 1, 1, 0, 0, 1, tzinfo=UTC)):
        yield


@pytest.fixture(params=["memory", "redis"])
async def limits(request: pytest.FixtureRequest, minute: None) -> AsyncIterator[Limits]:
    """Make workers that count in one store; each has a connection of its own."""
    made: list[Storage] = []
    if request.param == "memory":
        made.append(MemoryStorage())
        yield lambda: CredentialLimits(made[0], ignore)
        return
    url = request.getfixturevalue("redis_url")

    def worker() -> CredentialLimits:
        made.append(connect(url))
        return CredentialLimits(made[-1], ignore)

    yield worker
    for storage in made:
        await storage.bridge.storage.aclose()  # type: ignore[attr-defined]


async def taken(workers: list[CredentialLimits], count: int, tokens: int = 0, **values: int) -> int:
    entry = credential(1, **values)
    answers = await asyncio.gather(*(workers[n % len(workers)].take(entry, tokens) for n in range(count)))
    return answers.count(None)


async def test_requests_per_minute_are_exact_over_all_workers(limits: Limits) -> None:
    workers = [limits() for _ in range(3)]

    assert await taken(workers, 60, rpm=25) == 25
    full = await workers[0].take(credential(1, rpm=25), 0)
    assert full is not None
    assert full.tokens == 0
    assert 1 <= full.wait_s <= 60
    assert await workers[1].take(credential(2, rpm=25), 0) is None


async def test_tokens_per_minute_are_counted_before_the_send(limits: Limits) -> None:
    workers = [limits(), limits()]

    assert await taken(workers, 30, tokens=100, tpm=1000) == 10
    full = await workers[0].take(credential(1, tpm=1000), 100)
    assert full is not None
    assert full.tokens == 100


async def test_what_was_used_beyond_the_estimate_is_counted_afterwards(limits: Limits) -> None:
    one, other = limits(), limits()
    entry = credential(1, tpm=1000)
    await one.take(entry, 100)
    one.settle(entry, held=100, used=5000)
    await asyncio.gather(*one._debts)

    assert await other.take(entry, 1) is not None


async def test_a_request_larger_than_the_whole_allowance_goes_when_nothing_else_does(limits: Limits) -> None:
    assert await taken([limits()], 2, tokens=5000, tpm=1000) == 1


async def test_who_finds_no_room_for_requests_takes_no_tokens(limits: Limits) -> None:
    worker = limits()
    entry = credential(1, rpm=1, tpm=1000)
    await worker.take(entry, 10)
    for _ in range(5):
        assert await worker.take(entry, 500) is not None

    assert await worker.take(credential(1, tpm=1000), 900) is None


async def test_a_credential_without_limits_asks_nobody() -> None:
    worker = CredentialLimits(connect("redis://127.0.0.1:1"), ignore)

    assert await worker.take(credential(1, concurrency=3), 10) is None


async def test_a_store_that_is_away_leaves_each_worker_to_its_share_and_is_left_alone() -> None:
    told: list[bool] = []
    worker = CredentialLimits(connect("redis://127.0.0.1:1"), told.append)

    assert await worker.take(credential(1, rpm=1), 0) is None
    began = time.monotonic()
    for _ in range(50):
        assert await worker.take(credential(1, rpm=1), 0) is None

    assert told == [True, False]
    assert time.monotonic() - began < 20
