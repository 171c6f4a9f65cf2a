"""Who is asking, and for which span."""

from django.contrib.auth.models import User
from django.http import HttpRequest

from members.figures import SPANS

DAYS_DEFAULT = 7


def member_of(request: HttpRequest) -> User:
    """Return who is logged in; for views that let nobody else in."""
    assert isinstance(request.user, User)  # noqa: S101  (`login_required` saw to it)
    return request.user


def span_of(request: HttpRequest) -> int:
    """Return the days that the address asks for; the usual number for anything that isn't offered."""
    wanted = request.GET.get("days", "")
    return int(wanted) if wanted in map(str, SPANS) else DAYS_DEFAULT
