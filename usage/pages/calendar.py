"""A calendar of use: a column per week, a row per weekday, darker where more was used."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

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


def first_day(today: date) -> date:
    """Return the Monday that the calendar begins with."""
    return today - timedelta(days=today.weekday(), weeks=WEEKS - 1)


def weeks_of_use(requests: Mapping[date, int], today: date) -> Weeks:
    """Lay the requests of each day out in weeks."""
    first, most = first_day(today), max(requests.values(), default=1)
    mondays = [first + timedelta(weeks=week) for week in range(WEEKS)]
    rows = [
        (name, [_day(monday + timedelta(days=place), requests, most, today) for monday in mondays])
        for place, name in enumerate(WEEKDAYS)
    ]
    return Weeks(heads=[(monday, f"{monday:%b}" if monday.day <= 7 else "") for monday in mondays], rows=rows)


def _day(day: date, found: Mapping[date, int], most: int, today: date) -> Day | None:
    if day > today:
        return None
    requests = found.get(day, 0)
    level = -(-LEVELS * requests // most) if requests else 0
    return Day(date=day, requests=requests, level=level)
