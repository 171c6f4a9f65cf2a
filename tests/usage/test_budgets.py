import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import mail

from keys.tasks import end_task
from tests.the_sum import check_budgets_follow_records
from tests.usage.conftest import a_record
from tests.usage.test_limits import TOKEN
from tests.usage.test_records import an_end
from tests.usage.waiting import eventually
from usage.budgets import BudgetBook, BudgetEntry, Estimate, Rates, period_end
from usage.errors import BudgetHeld, LedgerUnavailable, OverBudget, Room
from usage.leases import close_as_lost
from usage.ledger import Admission, Ledger
from usage.models import Budget, Price

Query = Callable[..., list[dict[str, Any]]]
PLACES = ((7, "glm-5"),)
chance = random.Random(1)  # noqa: S311  (a test's)


def a_budget(query: Query, **changes: Any) -> int:
    facts = {"name": f"b{chance.random()}", "subject": "user", "subject_id": 1, "unit": "tokens", "limit": 1000}
    facts |= {"period": "month", "warn_percents": [], "warn_emails": [], "warn_webhook": ""} | changes
    columns = ", ".join(f'"{name}"' for name in facts)
    places = ", ".join(["%s"] * len(facts))
    (row,) = query(
        f"INSERT INTO usage_budget ({columns}, enabled, spent, reserved, warned_percent)"  # noqa: S608
        f" VALUES ({places}, true, 0, 0, 0) RETURNING id",
        *facts.values(),
    )
    return int(row["id"])


def state(query: Query, budget: int) -> tuple[int, int]:
    (row,) = query("SELECT spent, reserved FROM usage_budget WHERE id = %s", budget)
    return row["spent"], row["reserved"]


async def started(dsn: str, tmp_path: Path, name: str = "worker") -> Ledger:
    """Begin a ledger whose upkeep is left to the test, so that none comes in between."""
    ledger = Ledger(dsn, tmp_path / "spool", name)
    await ledger.start()
    await end_task(ledger._keeper._task)
    return ledger


@pytest.fixture
async def ledger(dsn: str, tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = await started(dsn, tmp_path)
    yield ledger
    await ledger.close()


async def read_anew(*ledgers: Ledger) -> None:
    for ledger in ledgers:
        await ledger._book.read(ledger._keeper._connection)


async def written(ledger: Ledger) -> None:
    await eventually(lambda: not ledger.backlog)


async def test_a_request_reserves_its_estimate_and_pays_what_it_used(ledger: Ledger, query: Query) -> None:
    budget = a_budget(query)
    await read_anew(ledger)

    admission = await ledger.admit(TOKEN, "m", 700, max_tokens=500)
    assert state(query, budget) == (0, 700)

    record = a_record()
    await ledger.open(record)
    ledger.settle(an_end(record))
    admission.release(tokens_used=160)
    await written(ledger)
    assert state(query, budget) == (160, 0)
    assert query("SELECT * FROM usage_reservation") == []


async def test_a_request_that_fails_pays_nothing_and_holds_nothing(ledger: Ledger, query: Query) -> None:
    budget = a_budget(query)
    await read_anew(ledger)

    for _ in range(3):
        (await ledger.admit(TOKEN, "m", 900)).release()
    await written(ledger)

    assert state(query, budget) == (0, 0)


async def test_over_budget_names_the_budget_and_its_reset(ledger: Ledger, query: Query) -> None:
    a_budget(query, name="alice daily", period="day")
    await read_anew(ledger)

    with pytest.raises(OverBudget) as refusal:
        await ledger.admit(TOKEN, "m", 1001)

    assert not isinstance(refusal.value, BudgetHeld)
    assert refusal.value.room == Room(unit="tokens", left=1000, needed=1001)
    assert refusal.value.budget == "alice daily"
    assert refusal.value.resets_at is not None
    assert timedelta(0) < refusal.value.resets_at - datetime.now(UTC) <= timedelta(days=1)


async def test_what_running_requests_hold_is_not_spent(ledger: Ledger, query: Query) -> None:
    a_budget(query)
    await read_anew(ledger)
    running = await ledger.admit(TOKEN, "m", 600)

    with pytest.raises(BudgetHeld) as refusal:
        await ledger.admit(TOKEN, "m", 500)

    assert refusal.value.room == Room(unit="tokens", left=1000, needed=500)
    running.release()
    await written(ledger)
    await ledger.admit(TOKEN, "m", 500)


async def test_a_request_that_one_of_its_budgets_refuses_draws_on_none(ledger: Ledger, query: Query) -> None:
    wide = a_budget(query, limit=10**6)
    narrow = a_budget(query, subject="token", limit=100)
    await read_anew(ledger)

    with pytest.raises(OverBudget):
        await ledger.admit(TOKEN, "m", 500)

    assert state(query, wide) == state(query, narrow) == (0, 0)


async def test_budgets_of_others_are_left_alone(ledger: Ledger, query: Query) -> None:
    bobs = a_budget(query, subject_id=2, limit=1)
    teams = a_budget(query, subject="team", subject_id=9, limit=10_000)
    await read_anew(ledger)

    await ledger.admit(replace(TOKEN, team_id=9), "m", 500)

    assert state(query, bobs) == (0, 0)
    assert state(query, teams) == (0, 500)


async def test_a_budget_for_some_models_leaves_the_others_alone(ledger: Ledger, query: Query) -> None:
    opus = a_budget(query, aliases=["claude-opus-*", "o3"], limit=1000)
    everything = a_budget(query, limit=10_000)
    await read_anew(ledger)

    for alias in ("claude-opus-4", "o3", "claude-opus", "o3-mini", "CLAUDE-OPUS-4"):
        admission = await ledger.admit(TOKEN, alias, 300)
        record = a_record(token_id=TOKEN.id, alias=alias)
        await ledger.open(record)
        ledger.settle(an_end(record, input_tokens=100, cache_read_tokens=0, output_tokens=0, thinking_tokens=0))
        admission.release()
    await written(ledger)

    assert state(query, opus) == (200, 0)
    assert state(query, everything) == (500, 0)
    check_budgets_follow_records(query)
    with pytest.raises(OverBudget):
        await ledger.admit(TOKEN, "claude-opus-4", 801)
    await ledger.admit(TOKEN, "claude-sonnet", 801)


async def test_of_100_calls_at_once_from_two_workers_a_budget_for_10_lets_10_through(
    ledger: Ledger, dsn: str, tmp_path: Path, query: Query
) -> None:
    budget = a_budget(query, limit=1000)
    rival = await started(dsn, tmp_path, "rival")
    await read_anew(ledger, rival)

    results = await asyncio.gather(
        *((ledger, rival)[n % 2].admit(TOKEN, "m", 100) for n in range(100)), return_exceptions=True
    )

    admitted = [result for result in results if isinstance(result, Admission)]
    assert len(admitted) == 10
    assert {type(result) for result in results} == {Admission, BudgetHeld}
    assert state(query, budget) == (0, 1000)
    for admission in admitted:
        admission.release()
    await rival.close()
    await written(ledger)
    assert state(query, budget) == (0, 0)


async def test_many_rounds_never_overdraw_and_leave_no_reservation(
    ledger: Ledger, dsn: str, tmp_path: Path, query: Query
) -> None:
    budgets = [a_budget(query, limit=1500), a_budget(query, subject="token", limit=1200)]
    rival = await started(dsn, tmp_path, "rival")
    await read_anew(ledger, rival)
    used = 0

    async def call(worker: Ledger, amount: int) -> None:
        nonlocal used
        try:
            admission = await worker.admit(TOKEN, "m", amount)
        except OverBudget:
            return
        record = a_record(token_id=TOKEN.id)
        await worker.open(record)
        await asyncio.sleep(chance.random() / 100)
        worker.settle(an_end(record, input_tokens=1, cache_read_tokens=0, output_tokens=0, thinking_tokens=0))
        used += 1
        admission.release()

    for _ in range(100):
        await asyncio.gather(*(call((ledger, rival)[n % 2], chance.randint(50, 400)) for n in range(10)))
    await rival.close()
    await written(ledger)

    assert used > 300
    assert [state(query, budget) for budget in budgets] == [(used, 0), (used, 0)]
    assert query("SELECT * FROM usage_reservation") == []


async def test_a_client_that_leaves_while_its_budget_is_asked_holds_nothing(ledger: Ledger, query: Query) -> None:
    budget = a_budget(query, limit=10**9)
    await read_anew(ledger)

    tasks = [asyncio.create_task(ledger.admit(TOKEN, "m", 100)) for _ in range(200)]
    for place, task in enumerate(tasks):
        if place % 10 == 0:
            await asyncio.sleep(0.001)
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    # When the second of these is in, the batch of the first is over, and with it all that was asked before.
    results += [await ledger.admit(TOKEN, "m", 100) for _ in range(2)]
    for result in results:
        if isinstance(result, Admission):
            result.release()
    await written(ledger)

    assert state(query, budget) == (0, 0)


async def test_what_a_dead_worker_reserved_is_released(ledger: Ledger, dsn: str, tmp_path: Path, query: Query) -> None:
    budget = a_budget(query)
    dead = await started(dsn, tmp_path, "dead")
    await read_anew(dead)
    await dead.admit(TOKEN, "m", 600)
    await dead._writer.close()

    await close_as_lost(ledger._keeper._connection, dead._writer.worker_id, 1)

    assert state(query, budget) == (0, 0)
    await dead.close()


async def test_a_new_period_begins_with_nothing_spent_and_keeps_what_is_held(ledger: Ledger, query: Query) -> None:
    budget = a_budget(query, period="hour")
    await read_anew(ledger)
    running = await ledger.admit(TOKEN, "m", 300)
    query("UPDATE usage_budget SET spent = 900, warned_percent = 80, period_start = period_start - interval '2 hours'")

    await ledger.admit(TOKEN, "m", 700)
    with pytest.raises(OverBudget):
        await ledger.admit(TOKEN, "m", 1)
    assert state(query, budget) == (0, 1000)

    running.release()
    await written(ledger)
    assert state(query, budget) == (0, 700)


async def test_a_clock_that_goes_back_starts_no_period_twice(ledger: Ledger, query: Query) -> None:
    budget = a_budget(query, period="hour")
    await read_anew(ledger)
    query("UPDATE usage_budget SET spent = 900, period_start = period_start + interval '3 hours'")

    await ledger.admit(TOKEN, "m", 50)

    assert state(query, budget) == (900, 50)


def a_price(query: Query, **changes: Any) -> int:
    facts = {"upstream_model": "glm-5", "input_price": 2_000_000, "output_price": 8_000_000, "origin": ""} | changes
    columns, places = ", ".join(facts), ", ".join(["%s"] * len(facts))
    (row,) = query(f"INSERT INTO usage_price ({columns}) VALUES ({places}) RETURNING id", *facts.values())  # noqa: S608
    return int(row["id"])


async def test_a_long_request_holds_what_long_ones_cost(ledger: Ledger, query: Query) -> None:
    long = {"long_above": 200_000, "long_input_price": 4_000_000, "long_output_price": 9_000_000}
    a_price(query, valid_from=datetime(2020, 1, 1, tzinfo=UTC), **long)
    budget = a_budget(query, unit="usd", limit=10**12)
    await read_anew(ledger)

    await ledger.admit(TOKEN, "m", 201_000, max_tokens=1000, places=PLACES)
    assert state(query, budget) == (0, 200_000 * 2_000 + 1000 * 8_000)

    await ledger.admit(TOKEN, "m", 201_001, max_tokens=1000, places=PLACES)
    assert state(query, budget) == (0, 200_000 * 2_000 + 1000 * 8_000 + 200_001 * 4_000 + 1000 * 9_000)


async def test_a_budget_in_usd_is_held_and_paid_by_the_price(ledger: Ledger, query: Query) -> None:
    price = a_price(query, cache_read_price=200_000, valid_from=datetime(2020, 1, 1, tzinfo=UTC))
    budget = a_budget(query, unit="usd", limit=10_000_000)
    await read_anew(ledger)

    admission = await ledger.admit(TOKEN, "m", 1500, max_tokens=1000, places=PLACES)
    assert state(query, budget) == (0, 500 * 2_000 + 1000 * 8_000)

    record = a_record()
    await ledger.open(record)
    ledger.settle(an_end(record, input_tokens=100, cache_read_tokens=40, output_tokens=20, thinking_tokens=5))
    admission.release()
    await written(ledger)
    cost = 100 * 2_000 + 40 * 200 + 20 * 8_000
    assert query("SELECT cost_nano, price_version FROM usage_usagerecord") == [
        {"cost_nano": cost, "price_version": price}
    ]
    assert query("SELECT cost_nano FROM usage_usagehour") == [{"cost_nano": cost}]
    assert state(query, budget) == (cost, 0)


async def test_an_unknown_price_is_unknown_and_does_not_block(ledger: Ledger, query: Query) -> None:
    budget = a_budget(query, unit="usd", limit=1)
    await read_anew(ledger)

    await ledger.admit(TOKEN, "m", 10**6, places=PLACES)
    record = a_record()
    await ledger.open(record)
    ledger.settle(an_end(record))
    await written(ledger)

    assert query("SELECT cost_nano, price_version FROM usage_usagerecord") == [
        {"cost_nano": None, "price_version": None}
    ]
    assert query("SELECT unpriced, cost_nano FROM usage_usagehour") == [{"unpriced": 1, "cost_nano": 0}]
    assert state(query, budget) == (0, 0)


PRICED = [
    # (prices, which of them holds)
    ([{"valid_from": -2}, {"valid_from": -1}], 1),
    ([{"valid_from": -1}, {"valid_from": 1}], 0),
    ([{"valid_from": 1}], None),
    ([{"valid_from": -1}, {"valid_from": -2, "upstream_id": 7}], 1),
    ([{"valid_from": -1, "upstream_id": 8}], None),
    ([{"valid_from": -1, "upstream_model": "other"}], None),
]


@pytest.mark.parametrize(("prices", "wanted"), PRICED)
async def test_the_price_in_force_is_the_newest_and_the_nearest(
    prices: list[dict[str, Any]], wanted: int | None, ledger: Ledger, query: Query
) -> None:
    days = [price["valid_from"] for price in prices]
    ids = [
        a_price(query, **price | {"valid_from": datetime.now(UTC) + timedelta(days=day)})
        for price, day in zip(prices, days, strict=True)
    ]
    record = a_record()

    await ledger.open(record)
    ledger.settle(an_end(record))
    await written(ledger)

    (row,) = query("SELECT price_version FROM usage_usagerecord")
    assert row["price_version"] == (None if wanted is None else ids[wanted])


async def test_a_soft_limit_is_warned_of_once_by_one_worker(
    ledger: Ledger, dsn: str, tmp_path: Path, query: Query
) -> None:
    a_budget(query, name="alice", warn_percents=[50, 80], warn_emails=["alice@example.com"])
    query("UPDATE usage_budget SET spent = 600")
    rival = await started(dsn, tmp_path, "rival")
    for _ in range(3):
        await ledger._keeper._round()
        await rival._keeper._round()
    assert [message.subject for message in mail.outbox] == ["Budget alice at 50 %"]

    query("UPDATE usage_budget SET spent = 990")
    await ledger._keeper._round()
    await rival._keeper._round()
    await rival.close()

    assert [message.subject for message in mail.outbox][1:] == ["Budget alice at 80 %"]
    assert mail.outbox[0].to == ["alice@example.com"]


async def test_nothing_is_admitted_before_the_budgets_are_known(dsn: str, tmp_path: Path) -> None:
    ledger = Ledger("host=/nowhere dbname=none", tmp_path / "spool", "worker")
    await ledger.start()

    with pytest.raises(LedgerUnavailable):
        await ledger.admit(TOKEN, "m", 1)

    assert not ledger.is_ready
    await ledger.close()


def entry(**changes: Any) -> BudgetEntry:
    facts: dict[str, Any] = {"id": 1, "name": "b", "subject": "user", "subject_id": 1, "aliases": (), "unit": "usd"}
    facts |= {"period": "day", "limit": 100, "warn_percents": (50, 80), "warn_emails": (), "warn_webhook": ""}
    return BudgetEntry(**facts | {"warned_percent": 0, "spent": 0} | changes)


def test_the_highest_passed_mark_is_warned_of() -> None:
    assert entry(spent=49).passed_percent == 0
    assert entry(spent=50).passed_percent == 50
    assert entry(spent=500).passed_percent == 80
    assert entry(spent=85, warned_percent=80).passed_percent == 0
    assert entry(limit=0, warn_percents=(100,)).passed_percent == 100


def rates(per_input: int, per_output: int) -> Rates:
    return Rates(input=per_input, output=per_output, long_above=None, long_input=None, long_output=per_output)


def test_the_dearest_place_counts() -> None:
    book = BudgetBook()
    book.put([entry()])
    book._prices = {(7, "a"): rates(1000, 2000), (None, "b"): rates(3000, 3000)}

    need = Estimate(input_tokens=10, output_tokens=10, places=((7, "a"), (8, "b"), (9, "unknown")))

    assert book.amounts(TOKEN, "m", need) == [(1, 60)]


@pytest.mark.parametrize(
    ("period", "end"),
    [
        ("hour", datetime(2028, 2, 29, 24 - 1, tzinfo=UTC) + timedelta(hours=1)),
        ("day", datetime(2028, 3, 1, tzinfo=UTC)),
        ("week", datetime(2028, 3, 6, tzinfo=UTC)),
        ("month", datetime(2028, 3, 1, tzinfo=UTC)),
        ("total", None),
    ],
)
def test_periods_end_on_the_calendar(period: str, end: datetime | None) -> None:
    assert period_end(period, datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC)) == end


def test_the_models_name_what_they_hold() -> None:
    assert str(Budget(name="alice")) == "alice"
    assert str(Price(upstream_model="m", valid_from=datetime(2030, 1, 1, tzinfo=UTC))) == "m from 2030-01-01"
