"""Sums over the ledger's days for the members' pages: one walk gives each grouping that a page shows."""
# ruff: noqa: S608  (columns are of the tables below, never from input)

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from usage.states import ERROR_STATES

NANO = 1_000_000_000
#: Spans that the pages offer, in days.
SPANS = (1, 7, 30, 90)
SUMMED = (
    "requests",
    "unpriced",
    "cost_nano",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
)
#: What sums are read of, and what they are grouped by: columns of `UsageDay`.
OWNERS = ("user_id", "team_id")
GROUPS = ("day", "alias", "user_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Sums over some requests."""

    #: The value that they are grouped by.
    label: Any
    #: The name of the user whose they are, where they are grouped by user.
    user_name: str = ""
    requests: int
    errors: int
    #: Attempts whose price is not known: their cost is missing from `cost_nano`.
    unpriced: int
    cost_nano: int
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int

    @property
    def all_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def tokens(self) -> int:
        return self.all_input_tokens + self.output_tokens

    @property
    def cached_percent(self) -> int:
        return cached_percent(self.cache_read_tokens, self.all_input_tokens)

    @property
    def cost_usd(self) -> float:
        return self.cost_nano / NANO

    @property
    def shown_amount(self) -> int:
        """What a bar shows: money where prices are known, else tokens as if each cost 1e-9 USD."""
        return self.cost_nano or self.tokens


def first_day(days: int, now: datetime) -> datetime:
    """Return the first moment (UTC) of a span that ends today."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=days - 1)


def read_figures(owner: str, owner_id: int, since: datetime, groups: Sequence[str]) -> dict[str, list[Figures]]:
    """Sum up what a user or a team used, once for each of `groups`, in one walk.

    Args:
        owner: One of `OWNERS`.
        since: A day's first moment.
        groups: Some of `GROUPS`.
    """
    assert owner in OWNERS  # noqa: S101
    assert set(groups) <= set(GROUPS)  # noqa: S101
    sums = ", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in SUMMED)
    columns = ", ".join(groups)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT GROUPING({columns}), {columns}, (array_agg(user_name ORDER BY day DESC))[1] AS user_name, {sums},"
            " coalesce(sum(attempts) FILTER (WHERE state = ANY(%s)), 0)::bigint AS errors"
            f" FROM usage_usageday WHERE {owner} = %s AND day >= %s"
            f" GROUP BY GROUPING SETS ({', '.join(f'({name})' for name in groups)})",
            [[str(state) for state in ERROR_STATES], owner_id, since],
        )
        rows = cursor.fetchall()
    # A bit of GROUPING is set for each column that isn't grouped by, the last column's lowest.
    places = {(1 << len(groups)) - 1 - (1 << len(groups) - 1 - place): place for place in range(len(groups))}
    found: dict[str, list[Figures]] = {name: [] for name in groups}
    for mark, *values in rows:
        place, (user_name, *numbers) = places[mark], values[len(groups) :]
        sums_of = dict(zip((*SUMMED, "errors"), numbers, strict=True))
        found[groups[place]].append(Figures(label=values[place], user_name=user_name, **sums_of))
    return found


def each_day(found: Iterable[Figures], days: int, since: datetime) -> list[Figures]:
    """Put sums of days in order, also those of days without requests."""
    by_day = {each.label: each for each in found}
    return [by_day.get(day) or nothing(day) for day in (since + timedelta(days=place) for place in range(days))]


def dearest_first(found: Iterable[Figures]) -> list[Figures]:
    return sorted(found, key=lambda each: (-each.cost_nano, -each.tokens))


def total(parts: Iterable[Figures]) -> Figures:
    parts = list(parts)
    return Figures(label="", **{name: sum(getattr(part, name) for part in parts) for name in ("errors", *SUMMED)})


def nothing(label: Any, user_name: str = "") -> Figures:
    return Figures(label=label, user_name=user_name, errors=0, **dict.fromkeys(SUMMED, 0))


def cached_percent(cache_read_tokens: int, all_input_tokens: int) -> int:
    return round(100 * cache_read_tokens / all_input_tokens) if all_input_tokens else 0
