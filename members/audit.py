"""Tell the database who acts, for the triggers that write the audit log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse

from keys.addresses import address_of

READING = ("GET", "HEAD", "OPTIONS", "TRACE")
NAME = "SELECT set_config('bridge.actor', %s, false), set_config('bridge.address', %s, false)"


def name_actor(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: what a request changes is its user's doing."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.method in READING:
            return get_response(request)
        with acting(request.user.get_username(), address_of(request)):
            return get_response(request)

    return middleware


@contextmanager
def acting(actor: str, address: str) -> Iterator[None]:
    """Name the actor on this thread's connection, until the end of the block."""
    _name(actor, address)
    try:
        yield
    finally:
        # A broken connection forgets the name by itself.
        with suppress(DatabaseError):
            _name("", "")


def _name(actor: str, address: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(NAME, [actor, address])
