"""The member's page: what I used, what is left, and my client tokens."""

from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from keys.models import ClientToken
from members import figures, sessions
from members.access import member_of, span_of
from members.budgets import budgets_of
from members.setups import setups
from members.tokens import is_usable

DAYS_MAX = 90
#: Sessions are summed from single records: longer spans would take too long for who works all day.
SESSION_DAYS_MAX = 14


@require_safe
@never_cache
@login_required
def home(request: HttpRequest) -> HttpResponse:
    now, days = timezone.now(), span_of(request)
    user_id, session_days = member_of(request).pk, min(days, SESSION_DAYS_MAX)
    since = figures.first_day(days, now)
    sums = figures.read_figures("user_id", user_id, since, ("day", "alias"))
    by_day = figures.each_day(sums["day"], days, since)
    tokens = ClientToken.objects.filter(user=user_id, revoked_at=None).order_by("-expires_at")
    context = {
        "days": days,
        "spans": figures.SPANS,
        "total": figures.total(by_day),
        "by_day": by_day,
        "dearest_day": max(each.shown_amount for each in by_day) or 1,
        "by_model": figures.dearest_first(sums["alias"]),
        "sessions": sessions.latest_sessions(user_id, figures.first_day(session_days, now)),
        "session_days": session_days if session_days < days else None,
        "budgets": budgets_of(request.user, now),
        "tokens": [{"row": token, "is_usable": is_usable(token, now)} for token in tokens],
        "setups": setups(base_url(request)),
    }
    return render(request, "members/home.html", context)


@require_safe
@never_cache
@login_required
def session(request: HttpRequest, session_id: str) -> HttpResponse:
    """Tell a session's cost story."""
    user_id = member_of(request).pk
    since = figures.first_day(DAYS_MAX, timezone.now())
    found = sessions.one_session(user_id, session_id, since)
    if found is None:
        raise Http404
    month = figures.first_day(30, timezone.now())
    requests = sessions.requests_of(user_id, session_id, since)
    place, count = sessions.place_of(found, user_id, min(month, found.first_at))
    context: dict[str, Any] = {
        "session": found,
        "threads": sessions.threads(requests),
        "place": place,
        "count": count,
        "is_shortened": len(requests) >= sessions.REQUESTS_MAX,
    }
    return render(request, "members/session.html", context)


def base_url(request: HttpRequest) -> str:
    """Return the address under which this member reaches Bridge."""
    return request.build_absolute_uri("/").rstrip("/")


def own_token(request: HttpRequest, pk: int, *, now: datetime | None = None) -> ClientToken:
    """Return a token of the caller's own; a usable one where `now` is given.

    Raises:
        Http404: It is somebody else's, or there is none.
    """
    token = ClientToken.objects.select_related("user").filter(user=request.user.pk, pk=pk).first()
    if token is None or (now is not None and not is_usable(token, now)):
        raise Http404
    return token
