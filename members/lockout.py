"""A pause for guessers: so many wrong passwords for one name from one address, and both wait together.

The name stays open from every other address, so nobody can lock out its owner from afar.
"""

from datetime import timedelta

from django.db import connection
from django.utils import timezone

from members.models import LoginFailure

FAILURES_MAX = 10
WINDOW = timedelta(minutes=15)
#: Rows of guessed names are dropped after this.
KEPT = timedelta(days=1)

COUNT = """
INSERT INTO members_loginfailure AS f (username, address, failures, since) VALUES (%s, %s, 1, now())
ON CONFLICT (username, address) DO UPDATE SET
  failures = CASE WHEN f.since < %s THEN 1 ELSE f.failures + 1 END,
  since = CASE WHEN f.since < %s THEN now() ELSE f.since END
"""


def is_locked(username: str, address: str) -> bool:
    """Tell whether this pair has to wait."""
    recent = LoginFailure.objects.filter(since__gte=timezone.now() - WINDOW, failures__gte=FAILURES_MAX)
    return recent.filter(username=_clean(username), address=address).exists()


def count_failure(username: str, address: str) -> None:
    """Count a wrong password."""
    now = timezone.now()
    window_start = (now - WINDOW).isoformat()
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [_clean(username), address, window_start, window_start])
    LoginFailure.objects.filter(since__lt=now - KEPT).delete()


def forget_failures(username: str, address: str) -> None:
    """Begin anew after the right password."""
    LoginFailure.objects.filter(username=_clean(username), address=address).delete()


def _clean(username: str) -> str:
    return username.replace("\x00", "")[:150]
