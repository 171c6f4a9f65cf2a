"""The team's page: for its leads what each member used, for the others the budget and their own share."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from members import figures
from members.access import member_of, span_of
from members.budgets import budgets_of_team
from members.team import (
    by_person,
    leads_of,
    members_of,
    sees_members,
    share_percent,
    teams_for,
    tokens_of,
)
from members.tokens import expires_soon, is_usable


@require_safe
@never_cache
@login_required
def show(request: HttpRequest) -> HttpResponse:
    user, now, days = member_of(request), timezone.now(), span_of(request)
    teams = teams_for(user)
    wanted = request.GET.get("team", "")
    team = next((each for each in teams if str(each.pk) == wanted), None) if wanted else next(iter(teams), None)
    if team is None and wanted:
        raise Http404
    context: dict[str, Any] = {"days": days, "spans": figures.SPANS, "teams": teams, "team": team}
    if team is None:
        return render(request, "members/team_none.html", context)
    since = figures.first_day(days, now)
    sums = figures.read_figures("team_id", team.pk, since, ("day", "alias", "user_id"))
    whole = figures.total(sums["day"])
    own = next((each for each in sums["user_id"] if each.label == user.pk), figures.nothing(user.pk))
    context |= {"total": whole, "own": own, "share": share_percent(own, whole)}
    if not sees_members(user, team):
        context |= {"budgets": budgets_of_team(team.pk, {}, (), now), "leads": leads_of(team)}
        return render(request, "members/team_share.html", context)
    by_day = figures.each_day(sums["day"], days, since)
    members = members_of(team)
    people, tokens = by_person(sums["user_id"], members), tokens_of(members)
    context |= {
        "people": people,
        "most": max((person.figures.shown_amount for person in people), default=0) or 1,
        "by_day": by_day,
        "dearest_day": max(each.shown_amount for each in by_day) or 1,
        "by_model": figures.dearest_first(sums["alias"]),
        "budgets": budgets_of_team(team.pk, members, tokens, now),
        "tokens": [
            {"row": token, "is_usable": is_usable(token, now), "ends_soon": expires_soon(token, now)}
            for token in tokens
        ],
    }
    return render(request, "members/team.html", context)
