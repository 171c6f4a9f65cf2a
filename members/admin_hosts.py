"""The admin under host names of its own, so that a proxy can keep it from where clients are."""

from collections.abc import Callable

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse

PREFIX = "/admin/"


def keep_admin_apart(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: where hosts are named for the admin, under all others it isn't there."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if settings.ADMIN_HOSTS and request.path_info.startswith(PREFIX):
            host = request.get_host().rpartition(":")[0] or request.get_host()
            if host not in settings.ADMIN_HOSTS:
                raise Http404
        return get_response(request)

    return middleware
