"""A member's own numbers, from the ledger's sums by day; sessions come from `members.sessions`."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from keys.models import ClientToken
from keys.roles import team_of
from usage.budgets import period_end
from usage.models import Budget, UsageDay
from usage.states import ERROR_STATES

NANO = 1_000_000_000
#: Spans that the page offers, in days.
SPANS = (1, 7, 30, 90)
SUMMED = (
    "requests",
    "unpriced",
    "cost_nano",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Sums over some requests."""

    label: Any
    requests: int
    errors: int
    #: Attempts whose price is not known: their cost is missing from `cost_nano`.
    unpriced: int
    cost_nano: int
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int

    @property
    def all_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def tokens(self) -> int:
        return self.all_input_tokens + self.output_tokens

    @property
    def cached_percent(self) -> int:
        return cached_percent(self.cache_read_tokens, self.all_input_tokens)

    @property
    def cost_usd(self) -> float:
        return self.cost_nano / NANO

    @property
    def shown_amount(self) -> int:
        """What a bar shows: money where prices are known, else tokens as if each cost 1e-9 USD."""
        return self.cost_nano or self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """A budget that somebody's requests draw on."""

    name: str
    whose: str
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


def first_day(days: int, now: datetime) -> datetime:
    """Return the first moment (UTC) of a span that ends today."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=days - 1)


def by_day(user_id: int, days: int, now: datetime) -> list[Figures]:
    """Sum up each day of the span, also those without requests."""
    start = first_day(days, now)
    found = {each.label: each for each in _summed(_own(user_id, start), "day")}
    return [found.get(day) or _nothing(day) for day in (start + timedelta(days=place) for place in range(days))]


def by_model(user_id: int, days: int, now: datetime) -> list[Figures]:
    """Sum up each model alias, the dearest first."""
    groups = _summed(_own(user_id, first_day(days, now)), "alias")
    return sorted(groups, key=lambda each: (-each.cost_nano, -each.tokens))


def total(parts: list[Figures]) -> Figures:
    sums = {name: sum(getattr(part, name) for part in parts) for name in ("errors", *SUMMED)}
    return Figures(label="", **sums)


def budgets_left(user: Any, now: datetime) -> list[BudgetLeft]:
    """Return the budgets that a member's requests draw on: the member's, the team's, the tokens'."""
    tokens = dict(ClientToken.objects.filter(user=user, revoked_at=None).values_list("pk", "name"))
    subject = Q(subject="user", subject_id=user.pk) | Q(subject="token", subject_id__in=tokens)
    if (team := team_of(user)) is not None:
        subject |= Q(subject="team", subject_id=team)
    return [_left(budget, tokens, now) for budget in Budget.objects.filter(subject, enabled=True)]


def cached_percent(cache_read_tokens: int, all_input_tokens: int) -> int:
    return round(100 * cache_read_tokens / all_input_tokens) if all_input_tokens else 0


def _own(user_id: int, start: datetime) -> QuerySet[UsageDay]:
    return UsageDay.objects.filter(user_id=user_id, day__gte=start)


def _summed(rows: QuerySet[UsageDay], column: str) -> list[Figures]:
    sums: dict[str, Any] = {name: Coalesce(Sum(name), 0) for name in SUMMED}
    sums["errors"] = Coalesce(Sum("attempts", filter=Q(state__in=ERROR_STATES)), 0)
    groups: Any = rows.order_by().values(label=F(column)).annotate(**sums)
    return [Figures(**row) for row in groups]


def _nothing(label: Any) -> Figures:
    return Figures(label=label, errors=0, **dict.fromkeys(SUMMED, 0))


def _left(budget: Budget, tokens: dict[int, str], now: datetime) -> BudgetLeft:
    until = period_end(budget.period, budget.period_start)
    is_over = until is not None and until <= now
    divisor = NANO if budget.unit == Budget.Unit.USD else 1
    whose = {"user": "yours", "team": "your team's"}.get(budget.subject) or f"token {tokens[budget.subject_id]}"
    return BudgetLeft(
        name=budget.name,
        whose=whose,
        period=budget.get_period_display(),
        unit=budget.unit,
        limit=budget.limit / divisor,
        used=0 if is_over else (budget.spent + budget.reserved) / divisor,
        until=period_end(budget.period, now),
    )
