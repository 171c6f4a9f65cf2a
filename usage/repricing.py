"""Costs computed anew with the prices that hold today for the time of each record.

Settling prices a record once, and a later price leaves it alone; only this changes it. Records, hours and days
change in one transaction per day. Budgets are not touched: what was spent under the old price was spent.
"""
# ruff: noqa: S608  (statements are built from our own words, never from input)

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.db import connection, transaction

from usage.ids import first_id_at
from usage.periods import CLOCK_SLACK, day_start
from usage.rollups import ALL_TOKENS, ROLLUPS, Rollup
from usage.statements import cost_expression, price_of_record

_CHANGED = f"""
changed AS (
    SELECT r.*, fresh.cost AS new_cost, fresh.version AS new_version, {ALL_TOKENS} AS all_tokens
    FROM usage_usagerecord AS r
    LEFT JOIN LATERAL (SELECT {cost_expression("r", "p")} AS cost, p.id AS version {price_of_record("r")}) AS fresh
        ON true
    WHERE r.started_at >= %(start)s AND r.started_at < %(end)s AND r.id >= %(low)s AND r.id < %(high)s
        AND r.state <> 'open' AND (%(model)s = '' OR r.upstream_model = %(model)s)
        AND (NOT %(unpriced)s OR r.cost_nano IS NULL)
        AND (r.cost_nano, r.price_version) IS DISTINCT FROM (fresh.cost, fresh.version)
)"""

_PLAN = f"""WITH {_CHANGED}
SELECT upstream_model, count(*), coalesce(sum(cost_nano), 0)::bigint, coalesce(sum(new_cost), 0)::bigint,
    count(*) FILTER (WHERE cost_nano IS NULL), count(*) FILTER (WHERE new_cost IS NULL)
FROM changed GROUP BY upstream_model ORDER BY upstream_model"""


def _resummed(rollup: Rollup) -> str:
    return f"""
into_{rollup.table} AS (
    UPDATE {rollup.table} AS h SET cost_nano = h.cost_nano + d.cost, unpriced = h.unpriced + d.unpriced
    FROM (
        SELECT date_trunc('{rollup.span}', started_at, 'UTC') AS span, {rollup.key} AS key,
            sum(coalesce(new_cost, 0) - coalesce(cost_nano, 0)) AS cost,
            count(*) FILTER (WHERE new_cost IS NULL AND all_tokens > 0)
                - count(*) FILTER (WHERE cost_nano IS NULL AND all_tokens > 0) AS unpriced
        FROM changed GROUP BY 1, 2
    ) AS d WHERE h.{rollup.span} = d.span AND h.key = d.key
)"""


_APPLY = f"""WITH {_CHANGED},
records AS (
    UPDATE usage_usagerecord AS r SET cost_nano = c.new_cost, price_version = c.new_version
    FROM changed AS c WHERE r.id = c.id
),
{",".join(map(_resummed, ROLLUPS))}
SELECT count(*) FROM changed"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which records to price anew: days in UTC, half open."""

    start: date
    end: date
    #: Empty: all.
    upstream_model: str = ""
    unpriced_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would change for one upstream model. Costs in 1e-9 USD; unknown ones count as none."""

    upstream_model: str
    records: int
    cost_before: int
    cost_after: int
    unknown_before: int
    unknown_after: int


def planned(selection: Selection) -> list[Change]:
    """Say what repricing would change, without changing it."""
    whole = _places(selection, selection.start, selection.end)
    names = ("upstream_model", "records", "cost_before", "cost_after", "unknown_before", "unknown_after")
    with connection.cursor() as cursor:
        cursor.execute(_PLAN, whole)
        return [Change(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def reprice(selection: Selection) -> Iterator[tuple[date, int]]:
    """Price the records anew, day by day; yield each day with the number of its changed records."""
    day = selection.start
    while day < selection.end:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_APPLY, _places(selection, day, day + timedelta(days=1)))
            changed: int = (cursor.fetchone() or (0,))[0]
        yield day, changed
        day += timedelta(days=1)


def _places(selection: Selection, first: date, last: date) -> dict[str, Any]:
    start, end = day_start(first), day_start(last)
    return {
        "start": start,
        "end": end,
        "low": first_id_at(start - CLOCK_SLACK),
        "high": first_id_at(end + CLOCK_SLACK),
        "model": selection.upstream_model,
        "unpriced": selection.unpriced_only,
    }
