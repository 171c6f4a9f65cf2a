"""Questions to the ledger, answered from the sums by hour and day; the records are read one page at a time."""
# ruff: noqa: S608  (statements are built from the tables of words below; what was asked for goes in as parameters)

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from usage.cleaning import BIGINT_MAX
from usage.histogram import BUCKETS, percentile_ms
from usage.ids import first_id_at, moment_of
from usage.models import UsageHour
from usage.periods import CLOCK_SLACK, is_midnight
from usage.rollups import ALL_TOKENS, HISTOGRAMS, SUMS
from usage.sources import Source, days_for, source_for
from usage.states import ERROR_STATES
from usage.visibility import Scope

TOKEN_KINDS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens")
SPANS = ("hour", "day", "week", "month")
#: What can be grouped by: the column that tells them apart, and the one that names them.
DIMENSIONS = {
    "user": ("user_id", "user_name"),
    "team": ("team_id", "team_name"),
    "token": ("token_id", "token_name"),
    "alias": ("alias", "alias"),
    "model": ("upstream_model", "upstream_model"),
    "upstream": ("upstream_id", "upstream_name"),
    "credential": ("credential_id", "credential_label"),
    "client": ("client_name", "client_name"),
    "version": ("client_version", "client_version"),
    "state": ("state", "state"),
    "error": ("error_type", "error_type"),
}
GROUPS_MAX = 2
#: Rows that an answer or a page has at most, and that a file has.
ROWS_MAX, EXPORT_MAX = 5_000, 100_000
TIMED_MAX = 2_000
PAGE_MAX = 2_000
PERCENTILES = (0.5, 0.95)
HOURS_OF = timedelta(days=31)
#: No sums are kept of credentials by hour.
CREDENTIAL_HOURS_OF = timedelta(days=7)
#: The expressions that tell groups apart, and that name them.
Column = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a report is about: a half-open time (UTC), up to two groups, and what to keep."""

    start: datetime
    end: datetime
    #: Whose usage the asker may see.
    scope: Scope
    groups: tuple[str, ...] = ()
    #: Values of `DIMENSIONS`, by their column that tells them apart.
    keep: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {*SPANS, *DIMENSIONS}
        if len(self.groups) > GROUPS_MAX or len(set(self.groups)) < len(self.groups) or not set(self.groups) <= known:
            msg = f"group by at most {GROUPS_MAX} of: {', '.join(sorted(known))}"
            raise ValueError(msg)
        if not set(self.keep) <= set(DIMENSIONS):
            msg = f"filter by: {', '.join(sorted(DIMENSIONS))}"
            raise ValueError(msg)
        for name, value in self.keep.items():
            _value(name, value)
        if self.start >= self.end:
            msg = "the time ends before it starts"
            raise ValueError(msg)
        most = CREDENTIAL_HOURS_OF if "credential" in {*self.groups, *self.keep} else HOURS_OF
        if "hour" in self.groups and self.end - self.start > most:
            msg = f"hours can be shown of {HOURS_OF.days} days at most, of credentials {CREDENTIAL_HOURS_OF.days}"
            raise ValueError(msg)

    @property
    def columns(self) -> list[str]:
        """What is grouped by and filtered by, but for times."""
        names = [*(group for group in self.groups if group in DIMENSIONS), *self.keep]
        return [column for name in names for column in DIMENSIONS[name]]


def report(question: Question, *, timed: int = TIMED_MAX, limit: int = ROWS_MAX) -> list[dict[str, Any]]:
    """Answer with a row per group: sums, shares and percentiles; the largest groups first, times in order.

    Percentiles are None where members and credentials meet (see `usage.sources`), and of pairs where rows are cut off.

    Args:
        timed: Of pairs of groups, so many rows have percentiles.
        limit: The most rows.
    """
    by_hour = "hour" in question.groups or not _is_whole_days(question)
    source = source_for(question.columns, question.scope, question.start, question.end, by_hour=by_hour)
    where, values = kept(question)
    wanted = f"{source.span} >= %s AND {source.span} < %s {where}"
    places = [*source.places, question.start, question.end, *values]
    columns = [_group(group, source.span) for group in question.groups]
    is_pair = len(columns) == GROUPS_MAX
    with connection.cursor() as cursor:
        cursor.execute(
            _sums(question.groups, columns, source, wanted, limit, () if is_pair else source.buckets), places
        )
        found: list[tuple[Any, ...]] = cursor.fetchall()
        times: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        # Adding up buckets is three quarters of the work, and a report that is cut off is there to be narrowed.
        if is_pair and source.buckets and len(found) < limit:
            cursor.execute(_times(question.groups, columns, source, wanted, timed), places)
            times = {row[:GROUPS_MAX]: row[GROUPS_MAX:] for row in cursor.fetchall()}
        rows = [_row(question.groups, (*row, *times.get(row[: 2 * GROUPS_MAX : 2], ()))) for row in found]
        for group in question.groups:
            if renamed := _renamed(group, rows):
                _name_anew(cursor, group, renamed, source, wanted, places)
    return rows


def _renamed(group: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of those who had several names in the time: within a row, where it is None, or over the rows."""
    names: dict[Any, set[Any]] = {}
    for row in rows:
        if (key := row.get(f"{group}_id")) is not None:
            names.setdefault(key, set()).add(row[group])
    several = {key for key, found in names.items() if len(found) > 1 or None in found}
    return [row for row in rows if row.get(f"{group}_id") in several]


def _name_anew(
    cursor: Any, group: str, rows: list[dict[str, Any]], source: Source, wanted: str, places: list[Any]
) -> None:
    """Give them the last one."""
    key, name = DIMENSIONS[group]
    cursor.execute(
        f"SELECT DISTINCT ON ({key}) {key}, {name} FROM {source.sql} WHERE {wanted} AND {key} = ANY(%s)"
        f" ORDER BY {key}, {source.span} DESC",
        [*places, list({row[f"{group}_id"] for row in rows})],
    )
    names = dict(cursor.fetchall())
    for row in rows:
        row[group] = names.get(row[f"{group}_id"], "")


def _sums(
    groups: Sequence[str], columns: Sequence[Column], source: Source, wanted: str, limit: int, times: Iterable[str] = ()
) -> str:
    """Write a query for keys and names of each group, the sums, and the buckets of times."""
    errors = ", ".join(f"'{state.value}'" for state in ERROR_STATES)
    attempts = source.sums["attempts"]
    selected = [
        *(f"{key} AS k{at}, {_one_name(name)} AS n{at}" for at, (key, name) in enumerate(columns)),
        *(f"({aggregate})::bigint AS {name}" for name, aggregate in source.sums.items()),
        f"coalesce({attempts} FILTER (WHERE state IN ({errors})), 0)::bigint AS errors",
        *(f"({aggregate})::bigint" for aggregate in times),
    ]
    return f"""
        SELECT {", ".join(selected)} FROM {source.sql} WHERE {wanted}
        {_grouped(groups, source)} LIMIT {limit}"""


def _times(groups: Sequence[str], columns: Sequence[Column], source: Source, wanted: str, limit: int) -> str:
    """Write a query for the keys of the first groups and their buckets."""
    keys = [f"{key} AS k{at}" for at, (key, _) in enumerate(columns)]
    buckets = [f"({aggregate})::bigint" for aggregate in source.buckets]
    return f"""
        SELECT {", ".join([*keys, *buckets])} FROM {source.sql} WHERE {wanted}
        {_grouped(groups, source)} LIMIT {limit}"""


def _grouped(groups: Sequence[str], source: Source) -> str:
    """Write what groups by the keys that are selected, and puts times in order and the largest groups first."""
    keys = ", ".join(f"k{at}" for at in range(len(groups)))
    order = [f"k{at}" for at, group in enumerate(groups) if group in SPANS]
    return f"""
        {f"GROUP BY {keys}" if keys else ""} HAVING {source.sums["attempts"]} > 0
        ORDER BY {", ".join([*order, f"sum({ALL_TOKENS}) DESC"])}"""


def _one_name(name: str) -> str:
    """Write the name of a group; NULL where it had several. As bytes they are compared in half the time."""
    if not name.endswith(("_name", "_label")):
        return f"max({name})"
    return f'CASE WHEN min({name} COLLATE "C") = max({name} COLLATE "C") THEN max({name} COLLATE "C") END'


def records(
    question: Question, *, after: UUID | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], UUID | None]:
    """Return a page of records, newest first, and where the next one goes on; None at the end."""
    limit = min(limit, PAGE_MAX)
    where, places = kept(question)
    high = after or first_id_at(question.end + CLOCK_SLACK)
    low = first_id_at(_first_day(question, before=moment_of(high), count=limit + 1) - CLOCK_SLACK)
    statement = f"""
        SELECT {", ".join(RECORD_COLUMNS)} FROM usage_usagerecord
        WHERE id >= %s AND id < %s AND started_at >= %s AND started_at < %s {where}
        ORDER BY id DESC LIMIT {limit + 1}"""
    with connection.cursor() as cursor:
        cursor.execute(statement, [low, high, question.start, question.end, *places])
        rows = [dict(zip(RECORD_COLUMNS, values, strict=True)) for values in cursor.fetchall()]
    return rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None


def _first_day(question: Question, *, before: datetime, count: int) -> datetime:
    """Return how far back one must look for so many records, by the sums: not over months for the few there are.

    Filters with an index of their own need no help.
    """
    if INDEXED & question.keep.keys() or (question.scope.is_everything and not question.keep):
        return question.start
    where, places = kept(question)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT min(day) FROM (SELECT day, sum(sum(attempts)) OVER (ORDER BY day DESC) - sum(attempts) AS later"
            f" FROM usage_usageday WHERE day >= %s AND day <= %s {where} GROUP BY day HAVING sum(attempts) > 0) AS days"
            " WHERE later < %s",
            # Of the day that the page begins in, some records may have been on the page before.
            [question.start, before - CLOCK_SLACK - timedelta(days=1), *places, count],
        )
        first: datetime | None = (cursor.fetchone() or (None,))[0]
    # What is still open stands in no sum.
    newest = min(before, timezone.now()) - OPEN_AT_MOST
    return max(question.start, min(first or newest, newest))


#: Filters that an index of the records answers.
INDEXED = {"user", "token", "model", "credential", "state"}
#: No attempt runs longer.
OPEN_AT_MOST = timedelta(days=1)
#: What a page of records tells of each.
RECORD_COLUMNS = (
    "id", "request_id", "client_request_id", "attempt", "started_at", "settled_at", "state", "source", "http_status",
    "error_type", "stop_reason", "user_id", "user_name", "team_id", "team_name", "token_id", "token_name", "alias", "upstream_id",
    "upstream_name", "upstream_model", "credential_id", "credential_label", "client_name", "client_version",
    "session_id", "stream", *TOKEN_KINDS, "cost_nano", "price_version", "ttft_ms", "duration_ms", "notes",
    "cache_write_1h_tokens",
)  # fmt: skip


def attempts_in(question: Question) -> int:
    """Return about how many records `records` would give, from the sums."""
    where, places = kept(question)
    days = days_for([*question.columns, *question.scope.columns])
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT coalesce(sum(attempts), 0)::bigint FROM {days.table} WHERE day >= %s AND day < %s {where}",
            [question.start, question.end, *places],
        )
        return int((cursor.fetchone() or (0,))[0])


def today_summary(now: datetime | None = None) -> dict[str, Any]:
    """Sum up the day so far (UTC): requests, attempts, errors, tokens by kind, cost in 1e-9 USD."""
    midnight = (now or timezone.now()).replace(hour=0, minute=0, second=0, microsecond=0)
    return UsageHour.objects.filter(hour__gte=midnight).aggregate(
        errors=Coalesce(Sum("attempts", filter=Q(state__in=ERROR_STATES)), 0),
        **{name: Coalesce(Sum(name), 0) for name in ("requests", "attempts", "unpriced", "cost_nano", *TOKEN_KINDS)},
    )


def _is_whole_days(question: Question) -> bool:
    return is_midnight(question.start) and is_midnight(question.end)


def _group(group: str, span: str) -> Column:
    if group in SPANS:
        moment = f"date_trunc('{group}', {span}, 'UTC')"
        return moment, moment
    return DIMENSIONS[group]


def kept(question: Question) -> tuple[str, list[str | int]]:
    """Return what narrows a statement to the question's scope and filters, and what goes into its places."""
    clauses = "".join(f" AND {DIMENSIONS[name][0]} = %s" for name in question.keep)
    places = [_value(name, value) for name, value in question.keep.items()]
    return f" AND {question.scope.condition()}{clauses}", places


def _value(name: str, value: str) -> str | int:
    """Return the value as its column has it.

    Raises:
        ValueError: It is no id.
    """
    if not DIMENSIONS[name][0].endswith("_id"):
        return value
    number = int(value)
    if not 0 <= number <= BIGINT_MAX:
        msg = f"{name}: {value[:40]} is no id"
        raise ValueError(msg)
    return number


def _row(groups: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for place, group in enumerate(groups):
        key, name = values[2 * place : 2 * place + 2]
        has_several = name is None and key is not None and group in DIMENSIONS
        row[group] = key if group in SPANS else None if has_several else name or ("" if key is None else str(key))
        if group in DIMENSIONS and DIMENSIONS[group][0] != DIMENSIONS[group][1]:
            row[f"{group}_id"] = key
    rest = values[2 * len(groups) :]
    sums = dict(zip((*SUMS, "errors"), rest, strict=False))
    histograms = rest[len(sums) :]
    return row | sums | _shares(sums) | _percentiles(histograms)


def _shares(sums: Mapping[str, int]) -> dict[str, float | None]:
    read = sums["input_tokens"] + sums["cache_read_tokens"] + sums["cache_write_tokens"]
    tokens = read + sums["output_tokens"]
    return {
        "cache_share": _share(sums["cache_read_tokens"], read),
        "error_share": _share(sums["errors"], sums["attempts"]),
        "estimated_share": _share(sums["estimated_tokens"], tokens),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _percentiles(elements: Sequence[int | None]) -> dict[str, int | None]:
    """Read them from the buckets, as far as there are any."""
    has_any = any(elements)
    found: dict[str, int | None] = {}
    for place, column in enumerate(HISTOGRAMS.values()):
        histogram = [count or 0 for count in elements[place * BUCKETS : (place + 1) * BUCKETS]]
        name = column.removesuffix("_ms")
        for fraction in PERCENTILES:
            found[f"{name}_p{fraction * 100:.0f}_ms"] = percentile_ms(histogram, fraction) if has_any else None
    return found
