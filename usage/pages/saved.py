"""Reports saved under a name: to be opened again, and shared with one's team."""

from collections.abc import Mapping
from datetime import date
from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone

from keys.roles import teams_of
from usage.models import SavedReport
from usage.models.saved import QUERY_MAX
from usage.pages.access import for_staff, posted_by_staff
from usage.periods import parse_day
from usage.reports import DIMENSIONS, SPANS

#: What of a report's address is kept: how it groups, what it shows, what it keeps.
WORDS = ("by", "then", "show", *DIMENSIONS)
DAYS_MAX = 366
SAVED_MAX = 200


def saved_for(user: object) -> QuerySet[SavedReport]:
    """Return the reports that somebody saved, and those shared with the teams."""
    return _visible_to(user).select_related("owner", "team")[:SAVED_MAX]


def teams_to_share_with(user: object) -> QuerySet[Group]:
    """Return the teams that somebody can share a report with: the own ones."""
    return Group.objects.filter(pk__in=teams_of(user) if isinstance(user, User) else []).order_by("name")


@for_staff
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Lead to the report, for the days that it means today."""
    report = get_object_or_404(_visible_to(request.user), pk=pk)
    words = dict(parse_qsl(report.query))
    if report.days is not None:
        today = timezone.now().date()
        words |= {"from": str(date.fromordinal(today.toordinal() - report.days + 1)), "to": str(today)}
    return HttpResponseRedirect(f"{reverse('usage_pages:report')}?{urlencode(words)}")


@posted_by_staff
def save(request: HttpRequest) -> HttpResponse:
    name = request.POST.get("name", "").replace("\x00", "").strip()[:80]
    words = dict(parse_qsl(request.POST.get("query", "")[:QUERY_MAX].replace("\x00", "")))
    query, days = kept(words, timezone.now().date())
    if not name:
        messages.error(request, "A saved report needs a name.")
    else:
        chosen = request.POST.get("team", "")
        team = next((one for one in teams_to_share_with(request.user) if str(one.pk) == chosen), None)
        SavedReport.objects.update_or_create(
            owner_id=request.user.pk, name=name, defaults={"team": team, "query": query, "days": days}
        )
        messages.success(request, f"The report is saved as {name}.")
    return HttpResponseRedirect(f"{reverse('usage_pages:report')}?{urlencode(words)}")


@posted_by_staff
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete one's own."""
    deleted, _ = SavedReport.objects.filter(pk=pk, owner_id=request.user.pk).delete()
    if not deleted:
        raise PermissionDenied
    return HttpResponseRedirect(reverse("usage_pages:report"))


def kept(words: Mapping[str, str], today: date) -> tuple[str, int | None]:
    """Return what is stored of a report's address, and how many days up to `today` it is about, if it ends there."""
    first, last = parse_day(words.get("from", "")), parse_day(words.get("to", ""))
    known = {word: words[word] for word in WORDS if words.get(word)}
    known = {
        word: value for word, value in known.items() if word not in ("by", "then") or value in (*SPANS, *DIMENSIONS)
    }
    days = (last - first).days + 1 if first and last == today else None
    if days is not None and 1 <= days <= DAYS_MAX:
        return urlencode(known), days
    return urlencode(known | {word: str(day) for word, day in (("from", first), ("to", last)) if day}), None


def _visible_to(user: object) -> QuerySet[SavedReport]:
    if not isinstance(user, User):
        return SavedReport.objects.none()
    return SavedReport.objects.filter(Q(owner=user) | Q(team__in=teams_of(user)))
