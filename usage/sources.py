"""Where the answer to a report is read: the smallest table of sums that knows all it asks about.

| asks about | by day | by hour |
|---|---|---|
| members, models, clients | `DAYS` | `HOURS` |
| credentials | `CREDENTIAL_DAYS` | the records |
| both | `CROSSED_DAYS`, without percentiles | the records |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from usage.ids import first_id_at
from usage.periods import CLOCK_SLACK
from usage.rollups import CREDENTIAL_DAYS, CROSSED_DAYS, DAYS, HISTOGRAMS, HOURS, PLACES, SUMS, Rollup, keyed
from usage.visibility import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What stands behind FROM with the values for its places, and how its rows are added up."""

    sql: str
    places: tuple[Any, ...] = ()
    #: The column of time.
    span: str
    #: An aggregate for each of `usage.rollups.SUMS`.
    sums: Mapping[str, str]
    #: One for each bucket of each of `usage.rollups.HISTOGRAMS`; none where no times are known.
    buckets: Sequence[str]


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
    return Source(
        sql=rollup.table,
        span=rollup.span,
        sums={name: f"sum({name})" for name in SUMS},
        buckets=[f"sum({name}[{n}])" for name in rollup.histograms for n in PLACES],
    )


def _of_records(start: datetime, end: datetime) -> Source:
    """Read the settled records of a time."""
    records = (
        "usage_usagerecord WHERE id >= %s AND id < %s AND started_at >= %s AND started_at < %s AND state <> 'open'"
    )
    return Source(
        sql=f"({keyed(records)}) AS records",
        places=(first_id_at(start - CLOCK_SLACK), first_id_at(end + CLOCK_SLACK), start, end),
        span="hour",
        sums=SUMS,
        buckets=[f"count(*) FILTER (WHERE {name}_bucket = {n})" for name in HISTOGRAMS.values() for n in PLACES],
    )
