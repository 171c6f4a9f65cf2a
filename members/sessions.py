"""Sessions of agents: what one cost, and which of its requests belong together.

Claude Code sends one session id for the main agent and its sub-agents alike, and nothing that tells them apart. Their
conversations do: each request of one carries all that went before, so its input grows. Threads are guessed from that
(`threads`). Inexact where a conversation was compacted or two have the same length; good enough to see where the money went.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from members.figures import NANO, cached_percent
from usage.ids import first_id_at
from usage.models import UsageRecord
from usage.states import ERROR_STATES

#: A member's clock and the worker's may differ; ids carry the worker's.
CLOCK_SLACK = timedelta(hours=2)
SESSIONS_MAX = 25
#: So many requests of one session are read; longer ones are told from their latest.
REQUESTS_MAX = 2000
#: A request belongs to a thread if its input is at least this share of what the thread's last one had.
KEPT_SHARE = 0.9
#: So many sub-agents are shown one by one, those with the most input.
AGENTS_MAX = 20
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Requests with one session id, summed."""

    id: str
    first_at: datetime
    last_at: datetime
    requests: int
    errors: int
    cost_nano: int
    unpriced: int
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int

    @property
    def all_input_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def cached_percent(self) -> int:
        return cached_percent(self.cache_read_tokens, self.all_input_tokens)

    @property
    def cost_usd(self) -> float:
        return self.cost_nano / NANO


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One attempt of a session, as far as its story needs it."""

    started_at: datetime
    duration_ms: int
    alias: str
    all_input_tokens: int
    cache_read_tokens: int
    output_tokens: int
    cost_nano: int

    @property
    def ended_at(self) -> datetime:
        return self.started_at + timedelta(milliseconds=self.duration_ms)


@dataclass(slots=True)
class Thread:
    """Requests of one conversation inside a session, oldest first."""

    alias: str
    requests: list[Request] = field(default_factory=list)
    #: "main agent", "sub-agent", "smaller conversations" or "single calls".
    part: str = ""

    @property
    def cost_usd(self) -> float:
        return sum(request.cost_nano for request in self.requests) / NANO

    @property
    def all_input_tokens(self) -> int:
        return sum(request.all_input_tokens for request in self.requests)

    @property
    def output_tokens(self) -> int:
        return sum(request.output_tokens for request in self.requests)

    @property
    def cached_percent(self) -> int:
        return cached_percent(sum(request.cache_read_tokens for request in self.requests), self.all_input_tokens)

    @property
    def longest_input(self) -> int:
        return max(request.all_input_tokens for request in self.requests)

    @property
    def first_at(self) -> datetime:
        return self.requests[0].started_at

    def takes(self, request: Request) -> bool:
        """Tell whether `request` can go on from where this thread stands."""
        last = self.requests[-1]
        has_ended = last.ended_at <= request.started_at
        return (
            has_ended and self.alias == request.alias and request.all_input_tokens >= last.all_input_tokens * KEPT_SHARE
        )


def sessions(user_id: int, since: datetime) -> Any:
    """Return the sums of a member's sessions, by id."""
    sums: dict[str, Any] = {name: Coalesce(Sum(name), 0) for name in TOKENS}
    return (
        _records(user_id, since)
        .exclude(session_id="")
        .order_by()
        .values(session=F("session_id"))
        .annotate(
            first_at=Min("started_at"),
            last_at=Max("started_at"),
            requests=Count("pk", filter=Q(attempt=1)),
            errors=Count("pk", filter=Q(state__in=ERROR_STATES)),
            unpriced=Count("pk", filter=Q(cost_nano=None, output_tokens__gt=0)),
            cost=Coalesce(Sum("cost_nano"), 0),
            **sums,
        )
    )


def latest_sessions(user_id: int, since: datetime) -> list[Session]:
    """Return a member's latest sessions, the newest first."""
    return [_session(row) for row in sessions(user_id, since).order_by("-last_at")[:SESSIONS_MAX]]


def one_session(user_id: int, session_id: str, since: datetime) -> Session | None:
    """Return one session of a member; None when it isn't theirs or is older."""
    row = sessions(user_id, since).filter(session_id=session_id).first()
    return _session(row) if row else None


def place_of(session: Session, user_id: int, since: datetime) -> tuple[int, int]:
    """Return the session's place among a member's sessions by cost, the dearest first, and how many there are."""
    costs = [row["cost"] for row in sessions(user_id, since)]
    return 1 + sum(cost > session.cost_nano for cost in costs), len(costs)


def requests_of(user_id: int, session_id: str, since: datetime) -> list[Request]:
    """Return a session's requests, oldest first."""
    rows = _records(user_id, since).filter(session_id=session_id).order_by("-id")
    columns = ("started_at", "duration_ms", "alias", "cost_nano", *TOKENS)
    return [_request(row) for row in reversed(rows.values(*columns)[:REQUESTS_MAX])]


def threads(requests: Iterable[Request]) -> list[Thread]:
    """Put requests that can be one conversation together, and name the parts.

    Requests without input failed before they were counted, and are left out. A request goes to the longest thread
    it can continue, else it begins one. The thread with the most input is the main agent's; others with more than
    one request are sub-agents; what was asked only once is gathered by model.
    """
    found: list[Thread] = []
    for request in requests:
        if not request.all_input_tokens:
            continue
        candidates = [thread for thread in found if thread.takes(request)]
        if candidates:
            max(candidates, key=lambda each: each.requests[-1].all_input_tokens).requests.append(request)
        else:
            found.append(Thread(alias=request.alias, requests=[request]))
    return _named(found)


def _named(found: Sequence[Thread]) -> list[Thread]:
    if not found:
        return []
    main, *others = sorted(found, key=lambda thread: -thread.all_input_tokens)
    main.part = "main agent"
    agents = [thread for thread in others if len(thread.requests) > 1]
    for thread in agents[:AGENTS_MAX]:
        thread.part = "sub-agent"
    return [
        main,
        *sorted(agents[:AGENTS_MAX], key=lambda each: each.first_at),
        *_gathered("smaller conversations", agents[AGENTS_MAX:]),
        *_gathered("single calls", [thread for thread in others if len(thread.requests) == 1]),
    ]


def _gathered(part: str, found: Iterable[Thread]) -> Iterable[Thread]:
    """Put threads of one model together, oldest request first."""
    by_model: dict[str, Thread] = {}
    for thread in found:
        by_model.setdefault(thread.alias, Thread(alias=thread.alias, part=part)).requests += thread.requests
    for gathered in by_model.values():
        gathered.requests.sort(key=lambda request: request.started_at)
    return by_model.values()


def _records(user_id: int, since: datetime) -> QuerySet[UsageRecord]:
    return UsageRecord.objects.filter(user_id=user_id, id__gte=first_id_at(since - CLOCK_SLACK), started_at__gte=since)


def _session(row: dict[str, Any]) -> Session:
    return Session(id=row.pop("session"), cost_nano=row.pop("cost"), **row)


def _request(row: dict[str, Any]) -> Request:
    return Request(
        started_at=row["started_at"],
        duration_ms=row["duration_ms"] or 0,
        alias=row["alias"],
        all_input_tokens=row["input_tokens"] + row["cache_read_tokens"] + row["cache_write_tokens"],
        cache_read_tokens=row["cache_read_tokens"],
        output_tokens=row["output_tokens"],
        cost_nano=row["cost_nano"] or 0,
    )
