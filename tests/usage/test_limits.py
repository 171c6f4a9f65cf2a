import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
import time_machine
from limits.aio.storage import MemoryStorage, Storage

from keys.entries import TokenEntry
from usage.errors import RateLimited
from usage.limits import LocalCounts, Pass, RateLimits
from usage.shared_limits import RedisCounts, connect

TOKEN = TokenEntry(
    id=1,
    name="laptop",
    user_id=1,
    user_name="alice",
    team_id=None,
    team_name="",
    scopes=(),
    expires_at=datetime(2040, 1, 1, tzinfo=UTC),
    rpm=None,
    tpm=None,
    concurrency=None,
)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> RateLimits:
    return RateLimits(LocalCounts(clock), now=lambda: datetime(2030, 1, 1, tzinfo=UTC))


async def admitted(limits: RateLimits, token: TokenEntry, tokens: int = 0, *, tries: int = 100) -> list[Pass]:
    passes = []
    for _ in range(tries):
        try:
            passes.append(await limits.enter(token, tokens))
        except RateLimited:
            continue
    return passes


async def test_a_token_without_limits_is_never_limited(limits: RateLimits) -> None:
    passes = await admitted(limits, TOKEN, 10**9)

    assert len(passes) == 100
    assert passes[0].headers == {}


async def test_requests_per_minute_hold_and_come_back_evenly(limits: RateLimits, clock: Clock) -> None:
    token = replace(TOKEN, rpm=60)

    assert len(await admitted(limits, token)) == 60
    with pytest.raises(RateLimited) as refusal:
        await limits.enter(token, 0)
    assert (refusal.value.limit, refusal.value.retry_after_s) == ("requests", 1.0)
    clock.now += 10
    assert len(await admitted(limits, token)) == 10


async def test_headers_say_how_much_is_left(limits: RateLimits) -> None:
    token = replace(TOKEN, rpm=60, tpm=6000)

    first = await limits.enter(token, 100)

    assert first.headers == {
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "59",
        "anthropic-ratelimit-requests-reset": "2030-01-01T00:00:01Z",
        "anthropic-ratelimit-tokens-limit": "6000",
        "anthropic-ratelimit-tokens-remaining": "5900",
        "anthropic-ratelimit-tokens-reset": "2030-01-01T00:00:01Z",
    }


async def test_tokens_are_held_as_estimated_and_settled_as_used(limits: RateLimits) -> None:
    token = replace(TOKEN, tpm=1000)
    first = await limits.enter(token, 1000)
    assert await admitted(limits, token, 100) == []

    first.leave(tokens_used=300)

    assert len(await admitted(limits, token, 100)) == 7


async def test_an_estimate_beyond_the_limit_waits_for_a_full_minute_not_for_ever(
    limits: RateLimits, clock: Clock
) -> None:
    token = replace(TOKEN, tpm=1000)

    assert len(await admitted(limits, token, 64_000)) == 1
    clock.now += 59
    assert len(await admitted(limits, token, 64_000)) == 0
    clock.now += 1
    assert len(await admitted(limits, token, 64_000)) == 1


async def test_a_request_refused_for_its_tokens_takes_no_place_among_the_requests(limits: RateLimits) -> None:
    token = replace(TOKEN, rpm=5, tpm=1000)
    (await limits.enter(token, 1000)).leave(None)

    assert await admitted(limits, token, 500) == []
    assert len(await admitted(limits, token, 0)) == 4


async def test_answers_at_once_are_limited_and_given_back_once(limits: RateLimits) -> None:
    token = replace(TOKEN, concurrency=3)
    passes = await admitted(limits, token)
    assert len(passes) == 3

    for _ in range(5):
        passes[0].leave(0)

    assert len(await admitted(limits, token)) == 1


async def test_a_call_without_that_limit_takes_no_place_of_its_token(limits: RateLimits) -> None:
    token = replace(TOKEN, rpm=100, concurrency=1)
    of_ours = await limits.enter(replace(token, concurrency=None), 0)

    first = await limits.enter(token, 0)
    of_ours.leave(0)

    assert await admitted(limits, token) == []
    first.leave(0)
    assert len(await admitted(limits, token)) == 1


async def test_one_token_does_not_use_up_another(limits: RateLimits) -> None:
    token, other = replace(TOKEN, rpm=1), replace(TOKEN, id=2, rpm=1)

    assert len(await admitted(limits, token)) == len(await admitted(limits, other)) == 1


async def test_buckets_nobody_uses_are_forgotten(clock: Clock) -> None:
    counts = LocalCounts(clock)
    for number in range(10_000):
        await counts.take(replace(TOKEN, id=number, rpm=10), 0)
    clock.now += 61

    await counts.take(replace(TOKEN, id=-1, rpm=10), 0)

    assert len(counts._buckets) == 1


@pytest.fixture
def storage() -> Iterator[Storage]:
    """No server is needed: the strategy is the same on the library's own memory.

    Its windows are the clock's minutes, and weigh a little less as soon as one is over: here one has just begun.
    """
    with time_machine.travel(datetime(2030, 1, 1, 0, 0, 1, tzinfo=UTC)):
        yield MemoryStorage()


async def test_workers_share_the_requests_of_a_minute(storage: Storage) -> None:
    token = replace(TOKEN, rpm=10)
    one, other = RateLimits(RedisCounts(storage)), RateLimits(RedisCounts(storage))

    granted = await admitted(one, token, tries=7), await admitted(other, token, tries=7)

    assert [len(passes) for passes in granted] == [7, 3]


async def test_workers_share_the_tokens_that_were_used(storage: Storage) -> None:
    token = replace(TOKEN, tpm=1000)
    one, other = RateLimits(RedisCounts(storage)), RateLimits(RedisCounts(storage))
    (await one.enter(token, 900)).leave(tokens_used=950)
    await asyncio.gather(*one._counts._debts)  # type: ignore[attr-defined]

    with pytest.raises(RateLimited) as refusal:
        await other.enter(token, 100)

    assert refusal.value.limit == "tokens"
    assert 0 < refusal.value.retry_after_s <= 60


async def test_a_store_that_is_away_leaves_each_worker_to_its_own_count() -> None:
    pytest.importorskip("redis")
    limits = RateLimits(RedisCounts(connect("redis://127.0.0.1:1")))

    assert len(await admitted(limits, replace(TOKEN, rpm=4), tries=9)) == 4


async def test_answers_at_once_beside_a_store_are_counted_by_worker(storage: Storage) -> None:
    limits = RateLimits(RedisCounts(storage))
    token = replace(TOKEN, rpm=100, concurrency=2)

    passes = await admitted(limits, token, tries=5)
    passes[0].leave(0)

    assert len(passes) == 2
    assert len(await admitted(limits, token, tries=5)) == 1
