"""What a filter can offer: the names that the sums of a time hold."""
# ruff: noqa: S608  (statements are built from the tables of words, what was asked for goes in as parameters)

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.core.cache import cache
from django.db import connection

from usage.reports import DIMENSIONS
from usage.rollups import Rollup
from usage.sources import days_for
from usage.visibility import Scope

KEPT_S = 60


def names_seen(dimensions: Iterable[str], scope: Scope, start: datetime, end: datetime) -> dict[str, dict[str, str]]:
    """Return for each of `usage.reports.DIMENSIONS` asked about its values with their names; up to a minute old.

    Args:
        start: A midnight, as `end`.
    """
    wanted = tuple(dimensions)
    # Not the scope itself: keys of a cache are plain text.
    key = f"usage.names.{'.'.join(wanted)}.{start:%Y%m%d}.{end:%Y%m%d}.{scope.condition()}".replace(" ", "")
    return cache.get_or_set(key, lambda: _names(wanted, scope, start, end), KEPT_S) or {}


def _names(wanted: Iterable[str], scope: Scope, start: datetime, end: datetime) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {name: {} for name in wanted}
    tables: dict[Rollup, list[str]] = {}
    for name in found:
        tables.setdefault(days_for([*DIMENSIONS[name], *scope.columns]), []).append(name)
    for table, names in tables.items():
        for name, value, label in _read(table, names, scope, start, end):
            found[name][value] = label
    return found


def _read(
    rollup: Rollup, names: Sequence[str], scope: Scope, start: datetime, end: datetime
) -> Iterable[tuple[str, str, str]]:
    """Read them in one walk over the days."""
    columns = [DIMENSIONS[name] for name in names]
    sets = ", ".join(f"({', '.join(dict.fromkeys(pair))})" for pair in columns)
    flags = ", ".join(f"grouping({key})" for key, _ in columns)
    pairs = ", ".join(f"{key}, {label}" for key, label in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {flags}, {pairs} FROM {rollup.table} WHERE day >= %s AND day < %s AND {scope.condition()}"
            # Of somebody who was renamed, the last name is the one that stays.
            f" GROUP BY GROUPING SETS ({sets}) ORDER BY max(day)",
            [start, end],
        )
        for row in cursor.fetchall():
            place = row.index(0)
            value, label = row[len(names) + 2 * place :][:2]
            if value not in (None, ""):
                yield names[place], str(value), label or str(value)
