"""What goes wrong since when, and whom it hits: from the sums by hour, the records and the pool's history."""
# ruff: noqa: S608  (statements are built from the tables below; what was asked for goes in as parameters)

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from usage.ids import first_id_at
from usage.models import PoolChange, UsageRecord
from usage.periods import CLOCK_SLACK
from usage.sources import source_for
from usage.states import ERROR_STATES, State
from usage.visibility import Scope, within

HOUR = timedelta(hours=1)
#: What is compared with: so long before the incident.
BASELINE = timedelta(hours=24)
HITS_MAX = 8
CHANGES_MAX = 40
#: Of an incident's failed records so many are read, the first ones.
FAILED_MAX = 5_000
#: A jump: so many errors in an hour, and a rate so far above the one before.
JUMP_ERRORS, JUMP_RATE, JUMP_FACTOR = 5, 0.05, 3.0

#: What may be hit: the columns that tell it apart.
SUBJECTS = {
    "credential": ("upstream_name", "credential_label"),
    "model": ("upstream_model",),
    "user": ("user_name",),
    "client": ("client_name", "client_version"),
    "cause": ("error_type", "state"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """How one credential, model, user or client version fared."""

    name: str
    attempts: int
    errors: int
    attempts_before: int
    errors_before: int

    @property
    def rate(self) -> float:
        return self.errors / self.attempts if self.attempts else 0.0

    @property
    def rate_before(self) -> float | None:
        return self.errors_before / self.attempts_before if self.attempts_before else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    start: datetime
    end: datetime
    whole: Hit
    requests: int
    #: By subject, most errors first; without those that had none.
    hits: Mapping[str, list[Hit]]
    #: Attempts beyond the first of their request.
    failovers: int
    first_bad: UsageRecord | None
    #: The pool's own acts, oldest first; None for who may not see credentials.
    changes: Sequence[PoolChange] | None = field(repr=False)


def latest_jump(hours: Iterable[tuple[datetime, int, int]]) -> datetime | None:
    """Return the last hour whose error rate is far above that of the hours before it, of (hour, attempts, errors)."""
    attempts_before = errors_before = 0
    found, was_bad = None, False
    for hour, attempts, errors in sorted(hours):
        usual = errors_before / attempts_before if attempts_before else 0.0
        is_bad = errors >= JUMP_ERRORS and errors / attempts >= max(JUMP_RATE, JUMP_FACTOR * usual)
        if is_bad and not was_bad:
            found = hour
        if not is_bad:
            attempts_before, errors_before = attempts_before + attempts, errors_before + errors
        was_bad = is_bad
    return found


def look_into(scope: Scope, start: datetime, end: datetime, *, with_pool: bool) -> Incident:
    """Gather what is known of a time between two full hours."""
    rows = _compared(scope, start, end)
    hits = {
        subject: sorted((hit for name, hit in rows if name == subject and hit.errors), key=lambda hit: -hit.errors)
        for subject in SUBJECTS
    }
    whole = next(hit for name, hit in rows if not name)
    requests = _requests(scope, start, end)
    return Incident(
        start=start,
        end=end,
        whole=whole,
        requests=requests,
        hits={subject: found[:HITS_MAX] for subject, found in hits.items()},
        failovers=max(0, whole.attempts - requests),
        first_bad=first_bad(_failed(scope, start, end)),
        changes=list(_changes(start, end)) if with_pool else None,
    )


def first_bad(failed: Sequence[UsageRecord]) -> UsageRecord | None:
    """Return the failed record with which it began; `failed` are in order.

    A few errors are usual: it begins in the first minute that has at least a quarter of the worst minute's.
    """
    minutes = Counter(record.started_at.replace(second=0, microsecond=0) for record in failed)
    enough = max(minutes.values(), default=0) / 4
    return next((r for r in failed if minutes[r.started_at.replace(second=0, microsecond=0)] >= enough), None)


def as_text(incident: Incident) -> str:
    """Write it down for a chat: plain lines, names without anything that could break them."""
    whole, first = incident.whole, incident.first_bad
    lines = [
        f"Incident {incident.start:%Y-%m-%d %H:%M} to {incident.end:%H:%M} UTC",
        f"Errors: {whole.errors:,} of {whole.attempts:,} attempts ({whole.rate:.1%}), the day before {_rate(whole.rate_before)}",
        f"Requests: {incident.requests:,}; attempts beyond the first: {incident.failovers:,}",
    ]
    if first is not None:
        what = ", ".join(_plain(part) for part in (first.state, first.error_type, str(first.http_status or "")) if part)
        who = ", ".join(
            _plain(part) for part in (first.user_name, first.upstream_model, first.credential_label) if part
        )
        lines.append(f"First bad request: {_plain(first.request_id)} at {first.started_at:%H:%M:%S} ({what}): {who}")
    titles = {"cause": "Causes", "credential": "Credentials", "model": "Models", "user": "Users", "client": "Clients"}
    for subject, title in titles.items():
        if hits := incident.hits[subject]:
            lines += [f"{title} hit:", *(f"  {_told(hit, subject)}" for hit in hits)]
    if incident.changes is not None:
        lines.append("What the pool did:" if incident.changes else "What the pool did: nothing")
        lines += [f"  {told_change(change)}" for change in incident.changes]
    return "\n".join(lines)


def told_change(change: PoolChange) -> str:
    """Write one act of the pool as a line."""
    whose = f"{change.upstream_name}: {change.credential_label}" if change.credential_label else change.upstream_name
    model = f", {change.model_name}" if change.model_name else ""
    cause = f" ({change.cause.replace('_', ' ')})" if change.cause else ""
    until = f" until {change.until:%H:%M:%S}" if change.until else ""
    return f"{change.changed_at:%H:%M:%S} {_plain(whose + model)} {change.state}{cause}{until}"


def _told(hit: Hit, subject: str) -> str:
    if subject == "cause":
        return f"{_plain(hit.name)}: {hit.errors:,}"
    before = _rate(hit.rate_before)
    return f"{_plain(hit.name)}: {hit.errors:,} of {hit.attempts:,} ({hit.rate:.1%}), before {before}"


def _rate(rate: float | None) -> str:
    return "unused" if rate is None else f"{rate:.1%}"


def _plain(name: str) -> str:
    """Return a name in one line, without characters that are not seen or turn the direction of writing."""
    seen = "".join(char if unicodedata.category(char) not in ("Cc", "Cf") else " " for char in name)
    seen = " ".join(seen.split())
    return seen if len(seen) <= 80 else f"{seen[:79]}…"


def _compared(scope: Scope, start: datetime, end: datetime) -> list[tuple[str, Hit]]:
    """Sum up the time and the day before it, in all and by each subject: a walk for each place that knows some."""
    by_credential = ("credential",)
    others = [subject for subject in SUBJECTS if subject not in by_credential]
    return [*_walk(scope, start, end, others, with_whole=True), *_walk(scope, start, end, by_credential)]


def _walk(
    scope: Scope, start: datetime, end: datetime, subjects: Sequence[str], *, with_whole: bool = False
) -> list[tuple[str, Hit]]:
    errors = ", ".join(f"'{state.value}'" for state in ERROR_STATES)
    columns = [column for subject in subjects for column in SUBJECTS[subject]]
    source = source_for(columns, scope, start - BASELINE, end, by_hour=True)
    attempts = source.sums["attempts"]
    sets = ", ".join([*(["()"] if with_whole else []), *(f"({', '.join(SUBJECTS[subject])})" for subject in subjects)])
    flags = ", ".join(f"grouping({SUBJECTS[subject][0]})" for subject in subjects)
    statement = f"""
        SELECT {flags}, {", ".join(columns)},
            coalesce({attempts} FILTER (WHERE hour >= %s), 0)::bigint,
            coalesce({attempts} FILTER (WHERE hour >= %s AND state IN ({errors})), 0)::bigint,
            coalesce({attempts} FILTER (WHERE hour < %s), 0)::bigint,
            coalesce({attempts} FILTER (WHERE hour < %s AND state IN ({errors})), 0)::bigint
        FROM {source.sql} WHERE hour >= %s AND hour < %s AND {scope.condition()}
        GROUP BY GROUPING SETS ({sets})"""
    with connection.cursor() as cursor:
        cursor.execute(statement, [start, start, start, start, *source.places, start - BASELINE, end])
        return [_hit(row, subjects, columns) for row in cursor.fetchall()]


def _hit(row: Sequence[Any], subjects: Sequence[str], columns: Sequence[str]) -> tuple[str, Hit]:
    flags, values, sums = row[: len(subjects)], row[len(subjects) : -4], row[-4:]
    subject = next((name for name, is_out in zip(subjects, flags, strict=True) if not is_out), "")
    found = dict(zip(columns, values, strict=True))
    parts = [found[column] or "" for column in SUBJECTS.get(subject, ())]
    match subject:
        case "cause":
            name = ", ".join(part for part in (parts[0].replace("_", " "), State(parts[1]).label) if part)
        case "credential":
            name = ": ".join(part for part in parts if part)
        case _:
            name = " ".join(part for part in parts if part)
    return subject, Hit(
        name=name or "(none)", attempts=sums[0], errors=sums[1], attempts_before=sums[2], errors_before=sums[3]
    )


def _requests(scope: Scope, start: datetime, end: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(requests), 0)::bigint FROM usage_usagehour"
            f" WHERE hour >= %s AND hour < %s AND {scope.condition()}",
            [start, end],
        )
        return int((cursor.fetchone() or (0,))[0])


def _failed(scope: Scope, start: datetime, end: datetime) -> list[UsageRecord]:
    failed = UsageRecord.objects.filter(
        state__in=ERROR_STATES,
        started_at__gte=start,
        started_at__lt=end,
        id__gte=first_id_at(start - CLOCK_SLACK),
        id__lt=first_id_at(end + CLOCK_SLACK),
    )
    return list(within(scope, failed).order_by("id")[:FAILED_MAX])


def _changes(start: datetime, end: datetime) -> Iterable[PoolChange]:
    return PoolChange.objects.filter(changed_at__gte=start, changed_at__lt=end).order_by("id")[:CHANGES_MAX]
