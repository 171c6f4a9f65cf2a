"""The sums by day for the dashboard, in one walk over half a year: requests by day, cost by team and model."""
# ruff: noqa: S608  (the scope writes nothing but ids)

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.db import connection

from usage.visibility import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a team spent on a model."""

    team: str
    model: str
    nano: int
    #: Attempts without a known price.
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    #: Days without any are left out.
    requests: Mapping[date, int]
    costs: Sequence[Cost]


def read_days(scope: Scope, *, since: datetime, costs_since: datetime) -> Days:
    """Sum up what `scope` may see."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT day, team_name, upstream_model, sum(requests)::bigint,"
            " coalesce(sum(cost_nano) FILTER (WHERE day >= %s), 0)::bigint,"
            " coalesce(sum(unpriced) FILTER (WHERE day >= %s), 0)::bigint"
            f" FROM usage_usageday WHERE day >= %s AND {scope.condition()}"
            " GROUP BY GROUPING SETS ((day), (team_name, upstream_model))",
            [costs_since, costs_since, since],
        )
        rows = cursor.fetchall()
    return Days(
        requests={day.date(): requests for day, _, _, requests, _, _ in rows if day and requests},
        costs=[
            Cost(team=team, model=model, nano=nano, unpriced=unpriced)
            for day, team, model, _, nano, unpriced in rows
            if day is None
        ],
    )
