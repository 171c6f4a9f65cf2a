"""A calendar of use: a column per week, a row per weekday, darker where more was used."""

from dataclasses import dataclass
from datetime import date, timedelta

from django.db.models import Sum

from usage.models import UsageDay
from usage.periods import day_start
from usage.visibility import Scope, within

WEEKS = 26
LEVELS = 4
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    date: date
    requests: int
    #: 0 for no use, else 1 to `LEVELS`.
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weeks:
    #: The Monday that each column begins with, and the month's name where one begins.
    heads: list[tuple[date, str]]
    #: By weekday; None for days to come.
    rows: list[tuple[str, list[Day | None]]]


def weeks_of_use(scope: Scope, today: date) -> Weeks:
    """Sum up the requests of each day of the last weeks."""
    first = today - timedelta(days=today.weekday(), weeks=WEEKS - 1)
    sums = within(scope, UsageDay.objects.filter(day__gte=day_start(first))).order_by()
    found = {day.date(): count for day, count in sums.values_list("day").annotate(Sum("requests")) if count}
    most = max(found.values(), default=1)
    mondays = [first + timedelta(weeks=week) for week in range(WEEKS)]
    rows = [
        (name, [_day(monday + timedelta(days=place), found, most, today) for monday in mondays])
        for place, name in enumerate(WEEKDAYS)
    ]
    return Weeks(heads=[(monday, f"{monday:%b}" if monday.day <= 7 else "") for monday in mondays], rows=rows)


def _day(day: date, found: dict[date, int], most: int, today: date) -> Day | None:
    if day > today:
        return None
    requests = found.get(day, 0)
    level = -(-LEVELS * requests // most) if requests else 0
    return Day(date=day, requests=requests, level=level)
