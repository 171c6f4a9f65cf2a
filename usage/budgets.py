"""Which budgets a request draws on, and how much it may need of each.

Every worker keeps the budgets and the current prices in memory, read anew every two seconds; a request without a
budget costs no query. What a budget has left is decided in Postgres alone, by `usage_reserve`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import NamedTuple

from keys.entries import TokenEntry, matches
from usage.connection import LedgerConnection
from usage.errors import BudgetHeld, LedgerUnavailable, OverBudget, Room

#: An upstream's id and the model's name there.
Place = tuple[int | None, str]

BUDGETS = """
SELECT id, name, subject, subject_id, aliases, unit, period, "limit", warn_percents, warn_emails, warn_webhook,
    warned_percent, CASE WHEN period_start < usage_period_start(period, period_start) THEN 0 ELSE spent END AS spent
FROM usage_budget WHERE enabled ORDER BY id"""
PRICE_VERSION = "SELECT count(*), max(id), max(valid_from) FILTER (WHERE valid_from <= now()) FROM usage_price"
PRICES = """
SELECT DISTINCT ON (upstream_model, upstream_id) upstream_id, upstream_model, input_price,
    greatest(output_price, thinking_price), long_above, long_input_price,
    coalesce(long_output_price, greatest(output_price, thinking_price))
FROM usage_price WHERE valid_from <= now() ORDER BY upstream_model, upstream_id, valid_from DESC"""


class Rates(NamedTuple):
    """What an upstream model costs, in 1e-12 USD per token."""

    input: int
    output: int
    #: With more tokens of input than so many, all tokens cost what stands below; None when they never do.
    long_above: int | None
    long_input: int | None
    long_output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a request may need at most."""

    input_tokens: int = 0
    #: The client's `max_tokens`.
    output_tokens: int = 0
    #: The upstream models that may answer; the dearest one counts.
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetEntry:
    """An enabled budget as it was read last."""

    id: int
    name: str
    subject: str
    subject_id: int
    #: Model aliases, or patterns of them, that it is for; none for all.
    aliases: tuple[str, ...]
    unit: str
    period: str
    limit: int
    warn_percents: tuple[int, ...]
    warn_emails: tuple[str, ...]
    warn_webhook: str
    warned_percent: int
    spent: int

    def is_for(self, alias: str) -> bool:
        """Tell whether requests for this model alias draw on it; `usage_is_for` tells the same in Postgres."""
        return not self.aliases or any(matches(pattern, alias) for pattern in self.aliases)

    @property
    def passed_percent(self) -> int:
        """The highest soft limit that the spending has passed and nobody was warned of; 0 when there is none."""
        spent = self.spent * 100 // self.limit if self.limit else 100
        return max((mark for mark in self.warn_percents if self.warned_percent < mark <= spent), default=0)


@dataclass(slots=True)
class BudgetBook:
    """One worker's copy of the budgets and prices."""

    is_read: bool = False
    budgets: dict[int, BudgetEntry] = field(default_factory=dict)
    _by_subject: Mapping[tuple[str, int | None], list[BudgetEntry]] = field(default_factory=dict)
    _prices: dict[Place, Rates] = field(default_factory=dict)
    _price_version: object = None

    async def read(self, connection: LedgerConnection) -> None:
        """Read the budgets, and the prices if they changed."""
        budgets, version = await connection.run([(BUDGETS, []), (PRICE_VERSION, [])])
        assert budgets.description is not None  # noqa: S101  (a SELECT)
        names = [column.name for column in budgets.description]
        rows = [dict(zip(names, row, strict=True)) for row in await budgets.fetchall()]
        tuples = ("aliases", "warn_percents", "warn_emails")
        self.put(BudgetEntry(**row | {name: tuple(row[name]) for name in tuples}) for row in rows)
        newest = await version.fetchone()
        if newest != self._price_version:
            (prices,) = await connection.run([(PRICES, [])])
            self._prices = {(row[0], row[1]): Rates(*row[2:]) for row in await prices.fetchall()}
            self._price_version = newest

    def put(self, budgets: Iterable[BudgetEntry]) -> None:
        """Take these budgets for the ones there are."""
        by_subject: defaultdict[tuple[str, int | None], list[BudgetEntry]] = defaultdict(list)
        self.budgets = {entry.id: entry for entry in budgets}
        for entry in self.budgets.values():
            by_subject[entry.subject, entry.subject_id].append(entry)
        self._by_subject, self.is_read = dict(by_subject), True

    def amounts(self, token: TokenEntry, alias: str, estimate: Estimate) -> list[tuple[int, int]]:
        """Return the budgets that a request of this token for this model alias draws on, each with what it may need.

        Raises:
            LedgerUnavailable: The budgets weren't read yet.
        """
        if not self.is_read:
            msg = "the budgets aren't read yet"
            raise LedgerUnavailable(msg)
        if not self._by_subject:
            return []
        subjects = (("token", token.id), ("user", token.user_id), ("team", token.team_id))
        entries = (entry for subject in subjects for entry in self._by_subject.get(subject, ()))
        return [(entry.id, self._amount(entry.unit, estimate)) for entry in entries if entry.is_for(alias)]

    def refusal(self, budget_id: int, now: datetime, *, left: int = 0, needed: int = 0) -> OverBudget:
        """Say that a budget has no room.

        Args:
            left: What of it is not spent.
            needed: What the request may need of it.
        """
        entry = self.budgets.get(budget_id)
        if entry is None:
            return OverBudget("deleted", None)
        room = Room(unit=entry.unit, left=left, needed=needed)
        return (BudgetHeld if room.is_held else OverBudget)(entry.name, period_end(entry.period, now), room)

    def _amount(self, unit: str, estimate: Estimate) -> int:
        if unit == "tokens":
            return estimate.input_tokens + estimate.output_tokens
        return max((self._cost(place, estimate) for place in estimate.places), default=0)

    def _cost(self, place: Place, estimate: Estimate) -> int:
        """Return the cost in 1e-9 USD; an unknown price reserves nothing, and never blocks."""
        prices = self._prices.get(place) or self._prices.get((None, place[1]))
        if prices is None:
            return 0
        per_input, per_output = prices.input, prices.output
        if prices.long_above is not None and estimate.input_tokens > prices.long_above:
            per_input, per_output = prices.long_input or per_input, prices.long_output
        return ceil((estimate.input_tokens * per_input + estimate.output_tokens * per_output) / 1000)


def is_over(period: str, start: datetime, now: datetime) -> bool:
    """Tell whether a period has ended, so that what is stored as spent is of the past."""
    end = period_end(period, start)
    return end is not None and end <= now


def period_end(period: str, now: datetime) -> datetime | None:
    """Return when the period of `now` ends (UTC); None for a budget in all."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    match period:
        case "hour":
            return hour + timedelta(hours=1)
        case "day":
            return day + timedelta(days=1)
        case "week":
            return day + timedelta(days=7 - day.weekday())
        case "month":
            return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return None
