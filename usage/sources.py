"""Where the answer to a report is read: the smallest table of sums that knows all it asks about.

| asks about | by day | by hour |
|---|---|---|
| members, models, clients | `DAYS` | `HOURS` |
| credentials | `CREDENTIAL_DAYS` | the records |
| both | `CROSSED_DAYS`, without percentiles | the records |
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from usage.ids import first_id_at
from usage.periods import CLOCK_SLACK
from usage.rollups import CREDENTIAL_DAYS, CROSSED_DAYS, DAYS, HOURS, Rollup, keyed, summed
from usage.visibility import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What stands behind FROM, and the values for its places."""

    sql: str
    places: tuple[Any, ...] = ()
    #: The column of time.
    span: str
    has_histograms: bool = True


def source_for(columns: Iterable[str], scope: Scope, start: datetime, end: datetime, *, by_hour: bool) -> Source:
    """Choose by the columns that are grouped by, filtered by or read."""
    asked = {*columns, *scope.columns}
    if by_hour:
        return _of_rollup(HOURS) if asked <= set(HOURS.groups) else _of_records(start, end)
    return _of_rollup(days_for(asked))


def days_for(columns: Iterable[str]) -> Rollup:
    """Return the smallest table of days that has all columns."""
    asked = set(columns)
    return next(rollup for rollup in (DAYS, CREDENTIAL_DAYS, CROSSED_DAYS) if asked <= set(rollup.groups))


def _of_rollup(rollup: Rollup) -> Source:
    return Source(sql=rollup.table, span=rollup.span, has_histograms=rollup.has_histograms)


def _of_records(start: datetime, end: datetime) -> Source:
    """Sum up the settled records of a time by hour, into the columns that a table of sums has."""
    whole = Rollup(table="usage_usagerecord", span="hour", groups=CROSSED_DAYS.groups)
    records = f"{whole.table} WHERE id >= %s AND id < %s AND started_at >= %s AND started_at < %s AND state <> 'open'"
    return Source(
        sql=f"(WITH keyed AS ({keyed(records)}) {summed(whole)}) AS hours",
        places=(first_id_at(start - CLOCK_SLACK), first_id_at(end + CLOCK_SLACK), start, end),
        span="hour",
    )
