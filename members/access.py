"""Who is asking."""

from django.contrib.auth.models import User
from django.http import HttpRequest


def member_of(request: HttpRequest) -> User:
    """Return who is logged in; for views that let nobody else in."""
    assert isinstance(request.user, User)  # noqa: S101  (`login_required` saw to it)
    return request.user
