from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from tests.usage.conftest import a_record, aside
from tests.usage.test_records import an_end, settled
from usage.models import Price
from usage.records import RecordWriter
from usage.states import Source, State

Query = Callable[..., list[dict[str, Any]]]
COSTS = "SELECT coalesce(sum(cost_nano), 0)::int AS cost, {} AS unpriced FROM {}"


async def spend(writer: RecordWriter) -> None:
    for model in ("glm-5", "glm-5", "qwen-4"):
        record = a_record(upstream_model=model)
        await writer.open(record)
        writer.settle(an_end(record))
    gone = a_record()
    await writer.open(gone)
    writer.settle(an_end(gone, state=State.TIMEOUT, source=Source.UNKNOWN))
    await writer.open(a_record())
    await settled(writer)


def a_price(model: str, price: int) -> None:
    yesterday = timezone.now() - timedelta(days=1)
    Price.objects.create(upstream_model=model, input_price=price, output_price=price, valid_from=yesterday)


def sums(query: Query) -> list[tuple[int, int]]:
    unpriced = "count(*) FILTER (WHERE cost_nano IS NULL AND state <> 'open')"
    tables = [
        ("usage_usagerecord", unpriced),
        *((f"usage_usage{span}", "sum(unpriced)::int") for span in ("hour", "day")),
    ]
    rows = [query(COSTS.format(column, table))[0] for table, column in tables]
    return [(row["cost"], row["unpriced"]) for row in rows]


@pytest.fixture
def spent(writer: RecordWriter) -> Callable[[], Any]:
    return lambda: spend(writer)


async def test_a_new_price_leaves_old_records_alone_until_they_are_priced_anew(
    spent: Callable[[], Any], query: Query, capsys: pytest.CaptureFixture[str]
) -> None:
    await spent()
    assert sums(query) == [(0, 4)] * 3
    await aside(a_price, "glm-5", 1000)
    assert sums(query) == [(0, 4)] * 3

    await aside(call_command, "reprice")
    said = capsys.readouterr().out
    assert said == ("glm-5: 2 records, 0.000000 -> 0.000000 USD, unknown 2 -> 0\nrun it with --yes to do so\n")
    assert sums(query) == [(0, 4)] * 3

    await aside(call_command, "reprice", "--yes")
    assert capsys.readouterr().out.endswith("priced 2 records anew\n")
    assert sums(query) == [(320, 2)] * 3

    await aside(call_command, "reprice", "--yes")
    assert capsys.readouterr().out == "nothing would change\n"


async def test_only_the_named_model_or_the_unpriced_are_priced(
    spent: Callable[[], Any], query: Query, capsys: pytest.CaptureFixture[str]
) -> None:
    await spent()
    await aside(a_price, "glm-5", 1000)
    await aside(call_command, "reprice", "--yes")
    await aside(Price.objects.all().delete)
    await aside(a_price, "glm-5", 5000)
    await aside(a_price, "qwen-4", 2000)

    await aside(call_command, "reprice", "--yes", "--unpriced")
    assert sums(query) == [(320 + 320, 1)] * 3
    await aside(call_command, "reprice", "--yes", model="qwen-4")
    assert sums(query) == [(320 + 320, 1)] * 3
    await aside(call_command, "reprice", "--yes")
    assert sums(query) == [(1600 + 320, 1)] * 3


#: In 1e-12 USD a token: short, for an hour, and long.
DEAR = {"input": 3, "cache_read": 0.3, "cache_write": 3.75, "cache_write_1h": 6, "output": 15, "thinking": 16}
LONG = {"long_input": 6, "long_cache_read": 0.6, "long_cache_write": 7.5, "long_output": 22.5}
COUNTS = {"input_tokens": 100, "cache_read_tokens": 4000, "output_tokens": 50, "thinking_tokens": 20}
#: Cache writes for minutes, and those for an hour, then what that costs, in 1e-9 USD.
COST_OF_REST = 100 * 3000 + 4000 * 300 + 30 * 15_000 + 20 * 16_000
COST_OF_LONG_REST = 100 * 6000 + 4000 * 600 + 50 * 22_500
ENDS = [
    (DEAR, 10, 0, COST_OF_REST + 10 * 3750),
    (DEAR, 10, 7, COST_OF_REST + 10 * 3750 + 7 * 6000),
    (DEAR | {"cache_write_1h": None}, 10, 7, COST_OF_REST + 17 * 3750),
    (DEAR | LONG, 195_900, 0, COST_OF_REST + 195_900 * 3750),
    (DEAR | LONG, 195_894, 7, COST_OF_LONG_REST + 195_894 * 7500 + 7 * 12_000),
    (DEAR | LONG | {"long_cache_write_1h": 11}, 195_894, 7, COST_OF_LONG_REST + 195_894 * 7500 + 7 * 11_000),
    (
        DEAR | LONG | {"long_output": None},
        195_901,
        0,
        COST_OF_LONG_REST - 50 * 22_500 + 30 * 15_000 + 20 * 16_000 + 195_901 * 7500,
    ),
    (DEAR, 0, 300_000, COST_OF_REST + 300_000 * 6000),
    (DEAR | LONG | {"input": 0}, 195_894, 7, COST_OF_LONG_REST + 195_894 * 7500 + 7 * 6000),
]


@pytest.mark.parametrize(("prices", "for_minutes", "for_an_hour", "cost"), ENDS)
async def test_an_hours_cache_and_long_requests_have_prices_of_their_own(
    prices: dict[str, float | None], for_minutes: int, for_an_hour: int, cost: int, writer: RecordWriter, query: Query
) -> None:
    columns = {f"{kind}_price": None if at is None else int(at * 10**6) for kind, at in prices.items()}
    price = Price(
        upstream_model="glm-5", **columns, long_above=200_000 if "long_input" in prices else None, origin="test"
    )
    await aside(price.save)
    record = a_record()
    await writer.open(record)
    writer.settle(
        an_end(record, **COUNTS, cache_write_tokens=for_minutes + for_an_hour, cache_write_1h_tokens=for_an_hour)
    )
    await settled(writer)

    [row] = query("SELECT cost_nano, cache_write_1h_tokens FROM usage_usagerecord")
    assert (row["cost_nano"], row["cache_write_1h_tokens"]) == (cost, for_an_hour)
    whole = 100 + 4000 + for_minutes + for_an_hour
    tokens = {"input": 100, "cache_read": 4000, "cache_write": for_minutes, "cache_write_1h": for_an_hour, "output": 30}
    tokens["thinking"] = 20
    assert sum(count * price.per_token(kind, whole) for kind, count in tokens.items()) == cost * 1000
