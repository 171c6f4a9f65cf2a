"""The live strip: its numbers are SQL's, whatever was lost on the way."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from tests.usage.conftest import a_record
from tests.usage.gate import Gate, gate
from tests.usage.live import EVERYTHING, alice, feed, in_thread, no_sockets_left, watching
from tests.usage.test_records import an_end, settled
from tests.usage.waiting import eventually
from usage.glance import glance, statement, tidy
from usage.live import LOOK_EVERY_S, Channel, LiveFeed
from usage.records import RecordWriter
from usage.states import State

__all__ = ["alice", "feed", "gate", "no_sockets_left"]


async def test_the_first_message_is_everything_and_a_page_says_the_same(
    feed: LiveFeed, alice: User, writer: RecordWriter
) -> None:
    await writer.open(a_record())
    failed = a_record(user_name="<b>bob</b>")
    await writer.open(failed)
    writer.settle(an_end(failed, state=State.TIMEOUT, error_type="timeout_error"))
    await settled(writer)

    watcher = await watching(feed, alice)

    page = await asyncio.to_thread(in_thread, lambda: glance(EVERYTHING))
    assert {name: watcher.values[name] for name in page} == page
    assert page["in_flight"] == 1
    assert page["today"]["errors"] == 1
    assert page["last_errors"][0]["user_name"] == "<b>bob</b>"
    await watcher.communicator.disconnect()


async def test_what_happens_comes_as_deltas(feed: LiveFeed, alice: User, writer: RecordWriter) -> None:
    watcher = await watching(feed, alice)
    assert watcher.values["in_flight"] == 0

    record = a_record()
    await writer.open(record)
    await watcher.until(lambda values: values["in_flight"] == 1)
    writer.settle(an_end(record))
    await watcher.until(lambda values: values["in_flight"] == 0 and values["today"]["requests"] == 1)

    await watcher.until(lambda values: (values["tokens_per_s"] or 0) > 0)
    await watcher.communicator.disconnect()


async def test_numbers_equal_sql_after_losses_and_a_killed_connection(
    feed: LiveFeed, alice: User, writer: RecordWriter, dsn: str, query: Callable[..., list[dict[str, Any]]]
) -> None:
    dice = random.Random(7)  # noqa: S311  (repeatable, and nothing secret)
    watcher = await watching(feed, alice, loses=lambda: dice.random() < 0.3)
    records = [a_record() for _ in range(30)]
    for place, record in enumerate(records):
        await writer.open(record)
        if place % 2:
            writer.settle(an_end(record, state=State.OK if place % 3 else State.UPSTREAM_ERROR))
        if place == 15:
            query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bridge-ledger'"
                " AND strpos(query, 'in_flight') > 0 AND pid <> pg_backend_pid()"
            )
        await asyncio.sleep(0.1)
    await settled(writer)

    (truth,) = query(statement(EVERYTHING, timezone.now(), ["k1"]))
    truth = tidy(truth["json_build_object"])
    await watcher.until(lambda values: all(values[name] == truth[name] for name in ("in_flight", "today")))

    assert watcher.values["last_errors"] == truth["last_errors"]
    assert watcher.values["in_flight"] == 15
    assert watcher.lost
    await watcher.communicator.disconnect()


@pytest.fixture
async def gated_feed(gate: Gate) -> AsyncIterator[LiveFeed]:
    feed = LiveFeed(gate.dsn)
    yield feed
    await feed.close()


async def test_it_says_when_postgres_is_away_and_comes_back(gate: Gate, gated_feed: LiveFeed, alice: User) -> None:
    watcher = await watching(gated_feed, alice)
    assert watcher.values["is_stale"] is False

    await gate.shut()
    await watcher.until(lambda values: values["is_stale"])
    assert watcher.values["in_flight"] == 0
    await gate.open()

    await watcher.until(lambda values: not values["is_stale"])
    await watcher.communicator.disconnect()


async def test_numbers_equal_sql_after_postgres_was_restarted(
    gate: Gate, gated_feed: LiveFeed, alice: User, writer: RecordWriter
) -> None:
    dice = random.Random(3)  # noqa: S311  (repeatable, and nothing secret)
    watcher = await watching(gated_feed, alice, loses=lambda: dice.random() < 0.1)

    await gate.shut()
    for _ in range(7):
        await writer.open(a_record())
    await watcher.until(lambda values: values["is_stale"])
    await gate.open()

    await watcher.until(lambda values: values["in_flight"] == 7 and not values["is_stale"])
    await watcher.communicator.disconnect()


async def test_many_sockets_cost_one_statement_a_second(feed: LiveFeed, alice: User) -> None:
    watchers = [await watching(feed, alice) for _ in range(20)]
    looks, began = feed.looks, time.monotonic()
    await asyncio.sleep(2.2)

    assert feed.looks - looks <= (time.monotonic() - began) / LOOK_EVERY_S + 1
    for watcher in watchers:
        await watcher.communicator.disconnect()
    await eventually(lambda: feed._task is not None and feed._task.done())
    looks = feed.looks
    await asyncio.sleep(1.2)
    assert feed.looks == looks


async def test_who_fell_behind_gets_a_snapshot() -> None:
    channel = Channel(EVERYTHING)
    for number in range(1, 4):
        channel.publish({"in_flight": number, "same": 0}, now=float(number))

    assert json.loads((await channel.next_after(2))[1]) == {"type": "delta", "number": 3, "values": {"in_flight": 3}}
    for behind in (0, 1):
        number, message = await channel.next_after(behind)
        assert (number, json.loads(message)) == (
            3,
            {"type": "snapshot", "number": 3, "values": {"in_flight": 3, "same": 0}},
        )


def test_a_beat_goes_out_when_nothing_changes() -> None:
    channel = Channel(EVERYTHING)

    for second in range(6):
        channel.publish({"in_flight": 1}, now=float(second))

    assert channel.number == 3


def test_the_rate_is_that_of_the_last_seconds() -> None:
    channel = Channel(EVERYTHING)

    rates = [channel.tokens_per_s(tokens, now=float(second)) for second, tokens in enumerate([0, 10, 30, 30, 30])]
    assert rates == [None, 10.0, 15.0, 10.0, 7.5]
    assert channel.tokens_per_s(30, now=20.0) is None
    assert channel.tokens_per_s(5, now=21.0) is None


async def test_the_search_for_errors_walks_an_index(dsn: str) -> None:
    plan = ""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("SET enable_seqscan = off")
        rows = await (await connection.execute("EXPLAIN " + statement(EVERYTHING, timezone.now(), ["k1"]))).fetchall()
        plan = "\n".join(row[0] for row in rows)

    assert "Seq Scan on usage_usagerecord" not in plan
    assert "state_id_idx" in plan or "usage_record_state" in plan
