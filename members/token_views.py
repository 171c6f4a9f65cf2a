"""A member's own client tokens: issue, rotate, revoke, and see whether the first request arrives."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from keys.leaks import Kind
from keys.models import ClientToken
from keys.sightings import dismiss, open_sightings
from keys.tokens import issue_token, revoke_token
from members.access import member_of
from members.forms import RotateForm, TokenForm
from members.setups import setups
from members.tokens import is_usable, offered_limits, rotate_token
from members.trial import first_request, turned_away, used_instead
from members.views import base_url, own_token
from usage.states import ERROR_STATES

#: A test looks back this far, for whoever was quicker than the page.
LOOK_BACK = timedelta(minutes=2)


@never_cache
@login_required
def issue(request: HttpRequest) -> HttpResponse:
    form = TokenForm(request.POST or None, limits=offered_limits(request.user))
    if request.method != "POST" or not form.is_valid():
        return render(request, "members/token_new.html", {"form": form})
    row, plain = issue_token(
        member_of(request),
        form.cleaned_data["name"],
        life=form.life,
        **form.limits.as_arguments(),
    )
    return _show_once(request, row, plain, "Your new token")


@never_cache
@login_required
def rotate(request: HttpRequest, pk: int) -> HttpResponse:
    token = own_token(request, pk, now=timezone.now())
    is_leaked = bool(open_sightings(Kind.TOKEN, [token.pk]))
    form = RotateForm(request.POST or None, initial={"hours": "0"} if is_leaked else {})
    if request.method != "POST" or not form.is_valid():
        return render(request, "members/token_rotate.html", {"form": form, "token": token})
    row, plain = rotate_token(token, grace=form.grace)
    return _show_once(request, row, plain, "The new token")


@never_cache
@login_required
def leak(request: HttpRequest, pk: int) -> HttpResponse:
    """Tell of the token in the text of requests; a post says that it is meant to be there."""
    token = own_token(request, pk)
    sighting = open_sightings(Kind.TOKEN, [token.pk]).get(token.pk)
    if sighting is None:
        raise Http404
    if request.method != "POST":
        context = {"token": token, "sighting": sighting, "is_own": sighting.user == request.user}
        return render(request, "members/token_leak.html", context)
    if dismiss(sighting):
        messages.success(request, f"Bridge tells no more of {token.name} ({token}) in requests.")
    return redirect("members:home")


@never_cache
@login_required
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    token = own_token(request, pk)
    if request.method != "POST":
        return render(request, "members/token_revoke.html", {"token": token})
    if revoke_token(token.pk):
        messages.success(request, f"{token.name} ({token}) is revoked. What still runs with it ends within seconds.")
    return redirect("members:home")


@require_safe
@never_cache
@login_required
def try_out(request: HttpRequest, pk: int) -> HttpResponse:
    """Wait for a request with this token, and say what it was. The page asks again until there is one."""
    token, now = own_token(request, pk), timezone.now()
    since = _moment(request.GET.get("since", "")) or now - LOOK_BACK
    seen = first_request(token, since)
    context = {
        "token": token,
        "is_usable": is_usable(token, now),
        "since": f"{since:%Y-%m-%dT%H:%M:%SZ}",
        "now": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "seen": seen,
        "refused": turned_away(token, since, base_url(request)),
        "elsewhere": None if seen else used_instead(token, since),
        "error_states": ERROR_STATES,
        "setups": setups(base_url(request)),
    }
    is_part = request.headers.get("X-Part") == "seen"
    return render(request, "members/_seen.html" if is_part else "members/token_try.html", context)


def _show_once(request: HttpRequest, row: ClientToken, plain: str, title: str) -> HttpResponse:
    """Show the plain token in this answer: a message would carry it through a cookie or the session."""
    context: dict[str, Any] = {
        "title": title,
        "token": row,
        "plain": plain,
        "setups": setups(base_url(request), plain),
    }
    answer = render(request, "members/token_issued.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


def _moment(text: str) -> datetime | None:
    """Read a moment as this page writes it; None for anything else."""
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    # A moment before 1970 has no id.
    return moment if moment.year > 2000 else None
