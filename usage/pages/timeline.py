"""How each credential stood over time, as bands: from the history of the pool's states."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from keys.standing import CAUSES
from usage.models import PoolChange

#: What changed more often is cut off: the newest changes are shown.
CHANGES_MAX = 2_000
ROWS_MAX = 15
#: A rest that began earlier than this before the window is over, or stands in the list of credentials.
LOOK_BACK = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A time in which something wasn't ready, and where that lies in the picture."""

    state: str
    cause: str
    start: datetime
    end: datetime
    left_percent: float
    width_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BandRow:
    name: str
    bands: list[Band]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    start: datetime
    end: datetime
    rows: list[BandRow]
    #: Rows that didn't fit.
    more: int


def credential_bands(now: datetime, *, since: datetime) -> Bands:
    """Return a row for each credential, or model on it, that wasn't ready all the time: those that rested most first."""
    changes = PoolChange.objects.filter(changed_at__gte=since - LOOK_BACK, changed_at__lte=now).order_by("-id")
    by_name: dict[str, list[PoolChange]] = {}
    for change in reversed(changes[:CHANGES_MAX]):
        by_name.setdefault(name_of(change), []).append(change)
    rows = [BandRow(name=name, bands=list(_bands(own, since, now))) for name, own in sorted(by_name.items())]
    rows = sorted((row for row in rows if row.bands), key=lambda row: -sum(band.width_percent for band in row.bands))
    return Bands(start=since, end=now, rows=rows[:ROWS_MAX], more=max(0, len(rows) - ROWS_MAX))


def name_of(change: PoolChange) -> str:
    """Say what a change is about."""
    whose = f"{change.upstream_name}: {change.credential_label}" if change.credential_label else change.upstream_name
    return f"{whose}, {change.model_name}" if change.model_name else whose


def cause_in_words(cause: str) -> str:
    return CAUSES.get(cause, cause.replace("_", " "))


def _bands(changes: list[PoolChange], since: datetime, now: datetime) -> Iterable[Band]:
    """Turn changes, oldest first, into the times between them; a rest ends by itself when its time has come."""
    for change, following in zip(changes, [*changes[1:], None], strict=True):
        if change.state == "ready":
            continue
        until = change.until or now
        end = min(until, following.changed_at if following else now, now)
        start = max(change.changed_at, since)
        if end > start:
            whole = (now - since).total_seconds()
            yield Band(
                state=change.state,
                cause=cause_in_words(change.cause),
                start=start,
                end=end,
                left_percent=round(100 * (start - since).total_seconds() / whole, 2),
                width_percent=round(100 * (end - start).total_seconds() / whole, 2),
            )
