"""The page for two in the morning: what goes wrong, since when, and whom it hits."""

from datetime import UTC, datetime, timedelta

from django.db.models import Q, Sum
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from usage.incidents import HOUR, as_text, latest_jump, look_into, told_change
from usage.models import UsageHour
from usage.pages.access import for_staff, shown
from usage.states import ERROR_STATES
from usage.visibility import Scope, may_see_pool, scope_of, within

SEARCHED = timedelta(hours=48)
HOURS_MAX = 24


@for_staff
def show(request: HttpRequest) -> HttpResponse:
    scope, now = scope_of(request.user), timezone.now()
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    hours = _hours(scope, this_hour - SEARCHED)
    jump = latest_jump(hours)
    start = _moment(request.GET.get("from", "")) or jump or this_hour
    count = _count(request.GET.get("hours", ""))
    end = start + count * HOUR if count else min(this_hour + HOUR, start + 3 * HOUR)
    incident = look_into(scope, start, max(end, start + HOUR), with_pool=may_see_pool(request.user))
    return shown(
        request,
        "usage/incident.html",
        "Incident",
        incident=incident,
        hits=[
            ("Causes", incident.hits["cause"]),
            ("Credentials", incident.hits["credential"]),
            ("Models", incident.hits["model"]),
            ("Users", incident.hits["user"]),
            ("Client versions", incident.hits["client"]),
        ],
        changes=None if incident.changes is None else [told_change(change) for change in incident.changes],
        text=as_text(incident),
        jump=jump,
        is_jump=jump == start,
        hours=[(hour, attempts, errors, errors / attempts if attempts else 0) for hour, attempts, errors in hours[:24]],
        start_value=f"{start:%Y-%m-%dT%H:%M}",
        count=round((incident.end - incident.start) / HOUR),
    )


def _hours(scope: Scope, since: datetime) -> list[tuple[datetime, int, int]]:
    """Return (hour, attempts, errors), the newest first."""
    sums = within(scope, UsageHour.objects.filter(hour__gte=since)).order_by("-hour").values_list("hour")
    failed = Coalesce(Sum("attempts", filter=Q(state__in=ERROR_STATES)), 0)
    return [(hour, all_, bad) for hour, all_, bad in sums.annotate(all=Sum("attempts"), bad=failed) if all_]


def _moment(text: str) -> datetime | None:
    """Read the full hour of `YYYY-MM-DDTHH:MM`, UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(minute=0, second=0, microsecond=0, tzinfo=UTC) if 2000 <= moment.year < 2200 else None
    except ValueError:
        return None


def _count(text: str) -> int:
    return min(int(text), HOURS_MAX) if text.isascii() and text.isdigit() and len(text) < 4 else 0
