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
