"""One request: its attempts, when they did what, what they used, and why they went as they did."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.safestring import SafeString

from keys.decisions import render_decision
from usage.finding import of_request
from usage.models import Price, UsageRecord
from usage.pages.access import for_staff, shown
from usage.pages.notes import in_words
from usage.states import Source
from usage.visibility import may_see_pool, visible_to

ATTEMPTS_MAX = 50
SOURCES = {
    Source.UPSTREAM: "counted by the upstream",
    Source.PARTIAL: "counted by the upstream up to the cut, the rest estimated",
    Source.ESTIMATED: "estimated",
    Source.UNKNOWN: "not counted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of an attempt's time, and where it lies in the picture of the whole request."""

    #: queue, wait, answer or settle
    kind: str
    label: str
    ms: int
    left_percent: float
    width_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Tokens of one kind and what they cost."""

    kind: str
    tokens: int
    #: In 1e-6 USD per million tokens; None without a price.
    price: int | None

    @property
    def cost_nano(self) -> float | None:
        return None if self.price is None else self.tokens * self.price / 1000

    @property
    def usd_per_million(self) -> float | None:
        return None if self.price is None else self.price * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    record: UsageRecord
    sent_at: datetime
    steps: list[Step]
    counted: list[Counted]
    price: Price | None
    source: str
    notes: list[tuple[str, str]]
    #: None for who may not see credentials: it names others than the one that served.
    decision: SafeString | None

    @property
    def queued_at(self) -> datetime | None:
        """When it began to wait in the gateway; None for records from before that was noted, and open ones."""
        ms = self.record.queued_ms
        return None if ms is None else self.sent_at - timedelta(milliseconds=ms)

    @property
    def last_byte_at(self) -> datetime | None:
        ms = self.record.duration_ms
        return None if ms is None else self.sent_at + timedelta(milliseconds=ms)

    @property
    def first_content_at(self) -> datetime | None:
        ms = self.record.ttft_ms
        return None if ms is None else self.sent_at + timedelta(milliseconds=ms)


@for_staff
def show(request: HttpRequest, request_id: str) -> HttpResponse:
    mine = visible_to(request.user, UsageRecord.objects.all())
    found = of_request(mine, request_id)
    if found is None:
        return shown(request, "usage/request_missing.html", "Request", status=404, request_id=request_id)
    if found.request_id != request_id:
        return redirect("usage_pages:request", found.request_id)
    records = list(mine.filter(request_id=request_id).order_by("attempt", "id")[:ATTEMPTS_MAX])
    attempts = told(records, timezone.now(), with_pool=may_see_pool(request.user))
    last = records[-1]
    return shown(
        request,
        "usage/request.html",
        "Request",
        request_id=request_id,
        attempts=attempts,
        first=records[0],
        last=last,
        queued_ms=_total(record.queued_ms for record in records),
        tokens=sum(item.tokens for attempt in attempts for item in attempt.counted),
        cost=_total(record.cost_nano for record in records),
    )


def told(records: list[UsageRecord], now: datetime, *, with_pool: bool) -> list[Attempt]:
    """Tell of each record all that the page shows; `records` are those of one request, in order."""
    prices = Price.objects.in_bulk({record.price_version for record in records if record.price_version})
    sent = _sent(records)
    start = min(_begin(record, at) for record, at in zip(records, sent, strict=True))
    end = max(_end(record, at, now) for record, at in zip(records, sent, strict=True))
    whole_ms = max(1, _ms(end - start))
    return [
        Attempt(
            record=record,
            sent_at=at,
            steps=list(_steps(record, at, start, whole_ms, now)),
            counted=_counted(record, prices.get(record.price_version or 0)),
            price=prices.get(record.price_version or 0),
            source=SOURCES[Source(record.source)],
            notes=[(note, in_words(note)) for note in record.notes],
            decision=render_decision(record.decision) if with_pool else None,
        )
        for record, at in zip(records, sent, strict=True)
    ]


def _sent(records: list[UsageRecord]) -> list[datetime]:
    """Return when each attempt was sent.

    A record's own time is Postgres' at opening, some milliseconds earlier; an attempt after another can be told better:
    its time in the queue began when that one ended.
    """
    sent: list[datetime] = []
    for place, record in enumerate(records):
        at = record.started_at
        if place and record.queued_ms is not None and (lasted := records[place - 1].duration_ms) is not None:
            at = max(at, sent[-1] + timedelta(milliseconds=lasted + record.queued_ms))
        sent.append(at)
    return sent


def _steps(record: UsageRecord, sent_at: datetime, start: datetime, whole_ms: int, now: datetime) -> Iterable[Step]:
    at = _ms(_begin(record, sent_at) - start)
    lasted = record.duration_ms if record.duration_ms is not None else _ms(_end(record, sent_at, now) - sent_at)
    first = record.ttft_ms if record.ttft_ms is not None else lasted
    settle = _ms(record.settled_at - sent_at) - lasted if record.settled_at else 0
    label = "until the first content" if record.ttft_ms is not None else "without content"
    parts = (
        ("queue", "in the gateway, before it was sent", record.queued_ms or 0),
        ("wait", label, first),
        ("answer", "until the last byte", lasted - first),
        ("settle", "until settled", settle),
    )
    for kind, text, ms in parts:
        if ms > 0:
            left, width = 100 * at / whole_ms, 100 * ms / whole_ms
            yield Step(
                kind=kind, label=text, ms=ms, left_percent=round(min(left, 99.5), 2), width_percent=round(width, 2)
            )
            at += ms


def _begin(record: UsageRecord, sent_at: datetime) -> datetime:
    return sent_at - timedelta(milliseconds=record.queued_ms or 0)


def _end(record: UsageRecord, sent_at: datetime, now: datetime) -> datetime:
    lasted = sent_at + timedelta(milliseconds=record.duration_ms or 0)
    return max(lasted, record.settled_at or now)


def _ms(span: timedelta) -> int:
    return round(span / timedelta(milliseconds=1))


NAMES = {"cache_read": "cache read", "cache_write": "cache write", "cache_write_1h": "cache write for 1 h"}


def _counted(record: UsageRecord, price: Price | None) -> list[Counted]:
    """Split the tokens by kind, with the prices that the ledger took."""
    tokens = {
        "input": record.input_tokens,
        "cache_read": record.cache_read_tokens,
        "cache_write": record.cache_write_tokens - record.cache_write_1h_tokens,
        "cache_write_1h": record.cache_write_1h_tokens,
        "output": record.output_tokens - record.thinking_tokens,
        "thinking": record.thinking_tokens,
    }
    whole = record.input_tokens + record.cache_read_tokens + record.cache_write_tokens
    return [
        Counted(kind=NAMES.get(kind, kind), tokens=count, price=price.per_token(kind, whole) if price else None)
        for kind, count in tokens.items()
        if count or kind != "cache_write_1h"
    ]


def _total(values: Iterable[int | None]) -> int | None:
    """Add up what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
