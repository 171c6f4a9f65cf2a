"""Days and other spans of time, all in UTC and half open."""

from datetime import UTC, date, datetime, timedelta

#: How far the clocks of a worker (ids) and of Postgres (`started_at`) may be apart.
CLOCK_SLACK = timedelta(hours=2)


def day_start(day: date) -> datetime:
    """Return the first moment of a day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def is_midnight(moment: datetime) -> bool:
    """Tell whether `moment` is the first of a day."""
    return moment.astimezone(UTC).time().isoformat() == "00:00:00"


def parse_day(text: str) -> date | None:
    """Read `YYYY-MM-DD`; None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
