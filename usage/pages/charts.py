"""Charts as data: what the browser draws, and the same numbers as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

#: More series than this are added up in one called `OTHERS`.
SERIES_MAX = 6
OTHERS = "others"

Values = Sequence[int | float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    values: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Some series over the same moments."""

    #: Also the id of the elements.
    name: str
    title: str
    #: "bars" are stacked, "lines" are not.
    kind: str
    #: How each number is written: count, usd or ms.
    unit: str
    moments: Sequence[datetime]
    series: Sequence[Series]
    #: From one moment to the next.
    step_s: int = 3600

    @property
    def data(self) -> dict[str, Any]:
        """What goes to the browser, as JSON."""
        return {
            "kind": self.kind,
            "unit": self.unit,
            "step": self.step_s,
            "moments": [moment.timestamp() for moment in self.moments],
            "series": [{"name": one.name, "values": list(one.values)} for one in self.series],
        }

    @property
    def rows(self) -> list[tuple[datetime, list[int | float | None]]]:
        """The same numbers, a row for each moment that has any, the newest first."""
        rows = [(moment, [one.values[at] for one in self.series]) for at, moment in enumerate(self.moments)]
        return [row for row in reversed(rows) if any(row[1])]

    @property
    def data_id(self) -> str:
        return f"{self.name}-data"

    @property
    def is_empty(self) -> bool:
        return not self.rows


def pivot(
    rows: Iterable[Mapping[str, Any]], *, moment: str, name: str, value: str, moments: Sequence[datetime]
) -> list[Series]:
    """Turn rows of (moment, name, value) into series, the largest first; the smallest are added up."""
    places = {at: place for place, at in enumerate(moments)}
    found: dict[str, list[int]] = {}
    for row in rows:
        if row[moment] in places:
            found.setdefault(row[name], [0] * len(moments))[places[row[moment]]] += row[value]
    ordered = sorted(found.items(), key=lambda item: -sum(item[1]))
    series = [Series(name=key, values=values) for key, values in ordered[:SERIES_MAX]]
    if rest := [values for _, values in ordered[SERIES_MAX:]]:
        series.append(Series(name=OTHERS, values=[sum(column) for column in zip(*rest, strict=True)]))
    return [one for one in series if any(one.values)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A name, its number, and its share of the largest in percent."""

    name: str
    value: int
    percent: int


def bars(values: Mapping[str, int], *, limit: int = 8) -> list[Bar]:
    """Return the largest, and the rest as one."""
    ordered = sorted(((name, value) for name, value in values.items() if value), key=lambda pair: -pair[1])
    kept = ordered[:limit]
    if rest := sum(value for _, value in ordered[limit:]):
        kept.append((OTHERS, rest))
    most = max((value for _, value in kept), default=1)
    return [Bar(name=name, value=value, percent=max(1, round(100 * value / most))) for name, value in kept]
