"""Sessions of agents: what one cost, its requests, and how it compares with a member's other ones."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from members.agents import Request
from members.figures import NANO, cached_percent
from usage.ids import first_id_at
from usage.models import UsageRecord
from usage.states import ERROR_STATES, Source

#: A member's clock and the worker's may differ; ids carry the worker's.
CLOCK_SLACK = timedelta(hours=2)
SESSIONS_MAX = 25
#: So many requests of one session are read; longer ones are told from their latest.
REQUESTS_MAX = 2000
#: A session is compared with those of so much time around it.
COMPARED = timedelta(days=30)
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
TOLD = (
    "started_at",
    "alias",
    "upstream_model",
    "credential_id",
    "price_version",
    "agent_id",
    "agent_kind",
    "client_name",
    "client_version",
    *TOKENS,
)


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


def sessions(user_id: int, since: datetime) -> Any:
    """Return the sums of a member's sessions, by id."""
    sums: dict[str, Any] = {name: Coalesce(Sum(name), 0) for name in TOKENS}
    return _by_session(_records(user_id, since)).annotate(
        first_at=Min("started_at"),
        last_at=Max("started_at"),
        requests=Count("pk", filter=Q(attempt=1)),
        errors=Count("pk", filter=Q(state__in=ERROR_STATES)),
        unpriced=Count("pk", filter=Q(cost_nano=None, output_tokens__gt=0)),
        cost=Coalesce(Sum("cost_nano"), 0),
        **sums,
    )


def latest_sessions(user_id: int, since: datetime) -> list[Session]:
    """Return a member's latest sessions, the newest first."""
    return [_session(row) for row in sessions(user_id, since).order_by("-last_at")[:SESSIONS_MAX]]


def one_session(user_id: int, session_id: str, since: datetime) -> Session | None:
    """Return one session of a member; None when it isn't theirs or is older."""
    row = sessions(user_id, since).filter(session_id=session_id).first()
    return _session(row) if row else None


def costs_beside(session: Session, user_id: int, now: datetime) -> list[int]:
    """Return what a member's other sessions cost in the month around the session."""
    end = min(now, session.last_at + COMPARED / 2)
    near = _records(user_id, end - COMPARED).filter(started_at__lte=end, id__lt=first_id_at(end + CLOCK_SLACK))
    rows: Any = _by_session(near).exclude(session_id=session.id).annotate(cost=Coalesce(Sum("cost_nano"), 0))
    return [row["cost"] for row in rows]


def requests_of(user_id: int, session_id: str, since: datetime) -> list[Request]:
    """Return a session's requests, oldest first."""
    rows = _records(user_id, since).filter(session_id=session_id).order_by("-id")
    columns = ("duration_ms", "cost_nano", "queued_ms", "source", *TOLD)
    return [_request(row) for row in reversed(rows.values(*columns)[:REQUESTS_MAX])]


def _by_session(records: QuerySet[UsageRecord]) -> Any:
    return records.exclude(session_id="").order_by().values(session=F("session_id"))


def _records(user_id: int, since: datetime) -> QuerySet[UsageRecord]:
    return UsageRecord.objects.filter(user_id=user_id, id__gte=first_id_at(since - CLOCK_SLACK), started_at__gte=since)


def _session(row: dict[str, Any]) -> Session:
    return Session(id=row.pop("session"), cost_nano=row.pop("cost"), **row)


def _request(row: dict[str, Any]) -> Request:
    return Request(
        **{name: row[name] for name in TOLD},
        duration_ms=row["duration_ms"] or 0,
        cost_nano=row["cost_nano"] or 0,
        is_counted=row["source"] == Source.UPSTREAM,
        # Agents and waiting times have been noted since the same version.
        is_noted=row["queued_ms"] is not None,
    )
