"""The member's page: what I used, what is left, and my client tokens."""

from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from keys.leaks import Kind
from keys.models import ClientToken
from keys.sightings import open_sightings
from members import figures, sessions
from members.access import member_of, span_of
from members.agents import parts_of
from members.budgets import budgets_of
from members.cache_misses import dearest, find_misses
from members.setups import setups
from members.story import tell, turns_of
from members.tokens import expires_soon, is_usable
from usage.models import Price

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
    leaks = open_sightings(Kind.TOKEN, [token.pk for token in tokens])
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
        "tokens": [
            {
                "row": token,
                "is_usable": is_usable(token, now),
                "ends_soon": expires_soon(token, now),
                "leak": leaks.get(token.pk),
            }
            for token in tokens
        ],
        "setups": setups(base_url(request)),
    }
    return render(request, "members/home.html", context)


@require_safe
@never_cache
@login_required
def session(request: HttpRequest, session_id: str) -> HttpResponse:
    """Tell a session's cost story."""
    user_id = member_of(request).pk
    now = timezone.now()
    since = figures.first_day(DAYS_MAX, now)
    found = sessions.one_session(user_id, session_id, since)
    if found is None:
        raise Http404
    requests = sessions.requests_of(user_id, session_id, since)
    told = parts_of(requests)
    versions = {request.price_version for request in requests if request.price_version}
    misses = find_misses(told.parts, Price.objects.in_bulk(versions))
    context: dict[str, Any] = {
        "session": found,
        "parts": told.parts,
        "is_clients_word": told.is_clients_word,
        "has_kinds": any(request.agent_kind for request in requests),
        "story": tell(found.cost_nano, sessions.costs_beside(found, user_id, now), misses),
        "dearest_misses": dearest(misses),
        "turns": turns_of(told.parts[0], misses) if told.parts else [],
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
