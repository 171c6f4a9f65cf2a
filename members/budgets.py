"""The budgets that people's requests draw on, and what is left of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from keys.models import ClientToken
from keys.roles import team_of
from members.figures import NANO
from usage.budgets import is_over, period_end
from usage.models import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """A budget that somebody's requests draw on."""

    name: str
    whose: str
    #: Model aliases that it is for; empty for all.
    aliases: str
    period: str
    unit: str
    #: In USD or tokens, as are the others.
    limit: float
    used: float
    #: When it begins anew; None for a budget in all.
    until: datetime | None

    @property
    def left(self) -> float:
        return max(0, self.limit - self.used)

    @property
    def used_percent(self) -> int:
        return min(100, round(100 * self.used / self.limit)) if self.limit else 100


def budgets_of(user: Any, now: datetime) -> list[BudgetLeft]:
    """Return the budgets that a member's requests draw on: the member's, the team's, the tokens'."""
    tokens = dict(ClientToken.objects.filter(user=user, revoked_at=None).values_list("pk", "name"))
    whose = {("user", user.pk): "yours"} | {("token", pk): f"token {name}" for pk, name in tokens.items()}
    if (team := team_of(user)) is not None:
        whose["team", team] = "your team's"
    return _left(whose, now)


def budgets_of_team(
    team_id: int, people: Mapping[int, str], tokens: Collection[ClientToken], now: datetime
) -> list[BudgetLeft]:
    """Return a team's own budgets, and those of people and tokens given."""
    whose = {("team", team_id): "the team's"} | {("user", pk): f"{name}'s" for pk, name in people.items()}
    named = {token.pk: f"{token.name} of {people.get(token.user_id, '')}" for token in tokens}
    return _left(whose | {("token", pk): f"token {name}" for pk, name in named.items()}, now)


def _left(whose: Mapping[tuple[str, int], str], now: datetime) -> list[BudgetLeft]:
    subjects = Q(pk__in=())
    for kind in Budget.Subject.values:
        subjects |= Q(subject=kind, subject_id__in=[pk for subject, pk in whose if subject == kind])
    places = {subject: place for place, subject in enumerate(whose)}
    budgets = sorted(
        Budget.objects.filter(subjects, enabled=True),
        key=lambda budget: (places[budget.subject, budget.subject_id], budget.name),
    )
    return [_one(budget, whose[budget.subject, budget.subject_id], now) for budget in budgets]


def _one(budget: Budget, whose: str, now: datetime) -> BudgetLeft:
    divisor = NANO if budget.unit == Budget.Unit.USD else 1
    return BudgetLeft(
        name=budget.name,
        whose=whose,
        aliases=", ".join(budget.aliases),
        period=budget.get_period_display(),
        unit=budget.unit,
        limit=budget.limit / divisor,
        used=0 if is_over(budget.period, budget.period_start, now) else (budget.spent + budget.reserved) / divisor,
        until=period_end(budget.period, now),
    )
