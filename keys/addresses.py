"""Where a request comes from."""

from django.conf import settings
from django.http import HttpRequest


def address_of(request: HttpRequest | None) -> str:
    """Return the peer's address; behind a proxy of ours, the one that the proxy saw."""
    if request is None:
        return ""
    if settings.BEHIND_PROXY and (forwarded := request.headers.get("x-forwarded-for", "")):
        # The last one: those before it are whatever the client wrote.
        return str(forwarded.rpartition(",")[2].strip()[:64])
    return str(request.META.get("REMOTE_ADDR", ""))[:64]
