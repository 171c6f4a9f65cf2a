"""What the sockets of the admin ask of a session beyond a login: the middleware of its pages doesn't see them."""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django_otp.middleware import OTPMiddleware

from members.second_factor import is_missing


def has_shown_second_factor(user: User, session: Any) -> bool:
    """Tell whether the pages would be open to this session too: the second factor was shown, or isn't asked for."""
    request = HttpRequest()
    request.user, request.session = user, session
    OTPMiddleware(lambda _: HttpResponse())(request)
    return not is_missing(request.user)
