"""The admin's first page: what goes on now, the day so far against the day before, and charts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from usage.glance import glance
from usage.pages.calendar import first_day, weeks_of_use
from usage.pages.charts import Chart, Series, bars, pivot
from usage.pages.days import Cost, read_days
from usage.pages.timeline import credential_bands
from usage.periods import day_start
from usage.reports import Question, report
from usage.visibility import Scope, may_open_pages, may_see_pool, scope_of

HOURS = 24
COST_OF = timedelta(days=30)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
#: In the order in which they are stacked.
KINDS = {
    "cache_read_tokens": "cache read",
    "input_tokens": "input",
    "cache_write_tokens": "cache write",
    "output_tokens": "output",
}
COUNTED = ("requests", "attempts", "errors", "cost_nano", "unpriced", *KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of the day so far."""

    label: str
    #: How it is written: count, tokens, usd, share or ms.
    unit: str
    value: float | None
    before: float | None
    #: None where more is neither good nor bad.
    is_more_good: bool | None = None
    note: str = ""

    @property
    def change_percent(self) -> int | None:
        """Compared with the same time yesterday; None when there is nothing to compare with."""
        if self.value is None or not self.before:
            return None
        return round(100 * (self.value - self.before) / self.before)

    @property
    def mood(self) -> str:
        change = self.change_percent
        if not change or self.is_more_good is None:
            return ""
        return "good" if (change > 0) == self.is_more_good else "bad"


def show(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what the page shows to its context; who may not see usage gets the plain index."""
    if may_open_pages(request.user):
        scope, now = scope_of(request.user), timezone.now()
        hours = _hours(scope, now)
        today = now.date()
        days = read_days(scope, since=day_start(first_day(today)), costs_since=day_start(today) - COST_OF)
        context |= {
            "title": "Dashboard",
            "live": glance(scope),
            "figures": figures(scope, hours, now),
            "charts": [_tokens(hours, now), _latency(hours, now), _errors(scope, now)],
            "costs": costs(days.costs),
            "cost_days": COST_OF.days,
            "bands": credential_bands(now, since=now - HOURS * HOUR) if may_see_pool(request.user) else None,
            "calendar": weeks_of_use(days.requests, today),
            "is_unused": not any(days.requests.values()),
        }
    return context


def figures(scope: Scope, hours: Mapping[datetime, Mapping[str, Any]], now: datetime) -> list[Figure]:
    """Compare the day so far (UTC) with the same time of yesterday.

    The sums are kept by the hour: of yesterday's hour that is under way now, the share counts that has passed.
    """
    this_hour = _hour_of(now)
    midnight = this_hour.replace(hour=0)
    passed = (now - this_hour) / HOUR
    today, before = Counter[str](), Counter[str]()
    for hour, sums in hours.items():
        for name in COUNTED:
            if hour >= midnight:
                today[name] += sums[name]
            elif hour >= midnight - DAY and hour <= this_hour - DAY:
                before[name] += round(sums[name] * (passed if hour == this_hour - DAY else 1))
    ttft, ttft_before = (
        _ttft(scope, start, start + (this_hour + HOUR - midnight)) for start in (midnight, midnight - DAY)
    )
    unpriced = f"{today['unpriced']:,} without a price" if today["unpriced"] else ""
    return [
        Figure(label="Requests", unit="count", value=today["requests"], before=before["requests"]),
        Figure(label="Tokens", unit="tokens", value=_tokens_of(today), before=_tokens_of(before)),
        Figure(label="Cost", unit="usd", value=today["cost_nano"], before=before["cost_nano"], note=unpriced),
        Figure(label="Errors", unit="count", value=today["errors"], before=before["errors"], is_more_good=False,
               note=_percent(today["errors"], today["attempts"])),
        Figure(label="Cache share", unit="share", value=_cache_share(today), before=_cache_share(before), is_more_good=True),
        Figure(label="TTFT, median", unit="ms", value=ttft, before=ttft_before, is_more_good=False),
    ]  # fmt: skip


def costs(found: Sequence[Cost]) -> dict[str, Any]:
    """Draw the cost by team and by model as bars."""
    by_team, by_model = Counter[str](), Counter[str]()
    for cost in found:
        by_team[cost.team or "no team"] += cost.nano
        by_model[cost.model] += cost.nano
    return {"by_team": bars(by_team), "by_model": bars(by_model), "unpriced": sum(cost.unpriced for cost in found)}


def _hours(scope: Scope, now: datetime) -> dict[datetime, dict[str, Any]]:
    """Return the hours of yesterday and today, by their start."""
    end = _hour_of(now) + HOUR
    rows = report(Question(start=_hour_of(now).replace(hour=0) - DAY, end=end, groups=("hour",), scope=scope))
    return {row["hour"]: row for row in rows}


def _hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _moments(now: datetime) -> list[datetime]:
    return [_hour_of(now) - (HOURS - 1 - at) * HOUR for at in range(HOURS)]


def _tokens(hours: Mapping[datetime, Mapping[str, Any]], now: datetime) -> Chart:
    return _hourly("tokens", "Tokens by kind", "bars", "count", hours, now, KINDS)


def _latency(hours: Mapping[datetime, Mapping[str, Any]], now: datetime) -> Chart:
    names = {
        "ttft_p50_ms": "TTFT, median",
        "ttft_p95_ms": "TTFT, 95 %",
        "duration_p50_ms": "whole answer, median",
        "duration_p95_ms": "whole answer, 95 %",
    }
    return _hourly("latency", "Latency", "lines", "ms", hours, now, names)


def _hourly(
    name: str,
    title: str,
    kind: str,
    unit: str,
    hours: Mapping[datetime, Mapping[str, Any]],
    now: datetime,
    names: Mapping[str, str],
) -> Chart:
    moments = _moments(now)
    nothing: Mapping[str, Any] = {} if kind == "lines" else dict.fromkeys(names, 0)
    series = [
        Series(name=label, values=[hours.get(moment, nothing).get(column) for moment in moments])
        for column, label in names.items()
    ]
    return Chart(name=name, title=title, kind=kind, unit=unit, moments=moments, series=series)


def _errors(scope: Scope, now: datetime) -> Chart:
    moments = _moments(now)
    rows = report(Question(start=moments[0], end=moments[-1] + HOUR, groups=("hour", "error"), scope=scope))
    rows = [row | {"error": row["error"] or "no type"} for row in rows if row["errors"]]
    series = pivot(rows, moment="hour", name="error", value="errors", moments=moments)
    return Chart(name="errors", title="Errors by cause", kind="bars", unit="count", moments=moments, series=series)


def _ttft(scope: Scope, start: datetime, end: datetime) -> int | None:
    rows: Sequence[Mapping[str, Any]] = report(Question(start=start, end=end, scope=scope))
    return rows[0]["ttft_p50_ms"] if rows else None


def _tokens_of(sums: Mapping[str, int]) -> int:
    return sum(sums[name] for name in KINDS)


def _cache_share(sums: Mapping[str, int]) -> float | None:
    read = sum(sums[name] for name in ("input_tokens", "cache_read_tokens", "cache_write_tokens"))
    return sums["cache_read_tokens"] / read if read else None


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % of attempts" if part and whole else ""
