"""Limits that several workers count together in Postgres."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from tests.usage.test_limits import TOKEN, admitted
from tests.usage.waiting import eventually
from usage.errors import RateLimited
from usage.limits import Pass, RateLimits
from usage.together import EXPIRE, SharedCounts

Query = Callable[..., list[dict[str, Any]]]
Join = Callable[..., Awaitable[RateLimits]]


@pytest.fixture
async def join(dsn: str, query: Query) -> AsyncIterator[Join]:
    """Begin another worker; its lease stands as long as the test doesn't take it away."""
    async with AsyncExitStack() as stack:

        async def begin(worker: str, *, is_alone: Callable[[], bool] = lambda: False, dsn: str = dsn) -> RateLimits:
            query("INSERT INTO usage_workerlease (worker, beat) VALUES (%s, 1)", worker)
            counts = SharedCounts(dsn, worker, is_alone=is_alone)
            stack.push_async_callback(counts.close)
            return RateLimits(counts)

        yield begin


async def settled(query: Query, count: int) -> None:
    """Wait until so many answers run, as far as the workers told."""
    running = "SELECT coalesce(sum(running), 0)::int AS n FROM usage_tokenrunning"
    await eventually(lambda: query(running)[0]["n"] == count)


async def test_of_100_requests_at_once_on_two_workers_as_many_pass_as_the_limit_says(join: Join) -> None:
    token = replace(TOKEN, rpm=10)
    workers = [await join("one"), await join("two")]

    results = await asyncio.gather(*(workers[n % 2].enter(token, 0) for n in range(100)), return_exceptions=True)

    assert sum(isinstance(result, Pass) for result in results) == 10
    refusals = [result for result in results if isinstance(result, RateLimited)]
    assert len(refusals) == 90
    assert all(refusal.limit == "requests" and 0 < refusal.retry_after_s <= 6 for refusal in refusals)
    assert refusals[0].headers["anthropic-ratelimit-requests-remaining"] == "0"


async def test_requests_come_back_evenly(join: Join, query: Query) -> None:
    token = replace(TOKEN, rpm=6)  # one in ten seconds: none comes back by the time that the test takes
    one, other = await join("one"), await join("two")
    assert len(await admitted(one, token, tries=9)) == 6
    query("UPDATE usage_tokenminute SET requests = 0, counted_at = clock_timestamp() - interval '21 s'")

    assert len(await admitted(other, token, tries=9)) == 2


async def test_what_an_answer_did_not_use_is_there_for_the_other_worker(join: Join, query: Query) -> None:
    token = replace(TOKEN, tpm=1000, concurrency=9)
    one, other = await join("one"), await join("two")
    first = await one.enter(token, 1000)
    assert await admitted(other, token, 500, tries=3) == []

    first.leave(tokens_used=300)
    await settled(query, 0)

    assert len(await admitted(other, token, 100, tries=9)) == 7


async def test_a_request_refused_for_its_tokens_takes_no_place_among_the_requests(join: Join) -> None:
    token = replace(TOKEN, rpm=5, tpm=1000)
    worker = await join("one")
    await worker.enter(token, 1000)

    assert await admitted(worker, token, 500, tries=5) == []
    assert len(await admitted(worker, token, 0, tries=9)) == 4


async def test_answers_at_once_hold_across_workers(join: Join, query: Query) -> None:
    token = replace(TOKEN, concurrency=3)
    one, other = await join("one"), await join("two")
    passes = [*await admitted(one, token, tries=2), *await admitted(other, token, tries=5)]
    assert len(passes) == 3

    passes[0].leave(0)
    passes[0].leave(0)
    await settled(query, 2)

    assert len(await admitted(other, token, tries=5)) == 1
    with pytest.raises(RateLimited) as refusal:
        await one.enter(token, 0)
    assert refusal.value.limit == "streams"


async def test_answers_of_a_worker_without_a_lease_take_no_place(join: Join, query: Query) -> None:
    token = replace(TOKEN, concurrency=3)
    dying, other = await join("one"), await join("two")
    await admitted(dying, token, tries=3)

    query("DELETE FROM usage_workerlease WHERE worker = 'one'")
    assert len(await admitted(other, token, tries=5)) == 3

    query(EXPIRE)
    assert query("SELECT worker, running FROM usage_tokenrunning") == [{"worker": "two", "running": 3}]


async def test_a_worker_that_is_alone_asks_nobody(join: Join, query: Query) -> None:
    worker = await join("one", is_alone=lambda: True)
    token = replace(TOKEN, rpm=4, tpm=1000, concurrency=2)

    passes = await admitted(worker, token, tries=5)
    passes[0].leave(0)

    assert len(passes) == 2
    assert query("SELECT * FROM usage_tokenminute") == query("SELECT * FROM usage_tokenrunning") == []


async def test_what_was_told_to_others_is_taken_back_when_they_are_gone(join: Join, query: Query) -> None:
    others_live = True
    token = replace(TOKEN, concurrency=3)
    worker = await join("one", is_alone=lambda: not others_live)
    passes = await admitted(worker, token, tries=3)
    await settled(query, 3)

    others_live = False
    for one in passes:
        one.leave(0)

    await settled(query, 0)
    assert len(await admitted(worker, token, tries=5)) == 3


async def test_without_postgres_each_worker_counts_for_itself(join: Join, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "usage.together")
    worker = await join("one", dsn="host=127.0.0.1 port=1 user=nobody dbname=none")
    token = replace(TOKEN, rpm=4, concurrency=3)

    passes = await admitted(worker, token, tries=9)
    passes[0].leave(0)

    assert len(passes) == 3
    assert len(await admitted(worker, token, tries=9)) == 1
    assert "counts for itself" in caplog.text


async def test_a_request_that_is_given_up_leaves_no_place_taken(join: Join, query: Query) -> None:
    token = replace(TOKEN, concurrency=1)
    worker = await join("one")
    asking = asyncio.create_task(worker.enter(token, 0))
    await asyncio.sleep(0)

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    first = await worker.enter(token, 0)
    first.leave(0)
    await settled(query, 0)
