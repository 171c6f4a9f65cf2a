"""Asking for the password again before secrets and rights are changed.

A session left open on a desk shows things for hours; it changes credentials, users and groups only for ten minutes
after its owner typed the password.
"""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

PROVED_AT = "bridge_proved_at"
#: How long a typed password is proof enough, in seconds.
FRESH_S = 10 * 60
#: Admin tables that ask, by their names in URLs, and the permission to change each.
GUARDED = {
    "keys_credential": "keys.change_credential",
    "keys_upstream": "keys.change_upstream",
    "auth_user": "auth.change_user",
    "auth_group": "auth.change_group",
}
#: Pages to read. A credential's own page is a form for its secret, so it isn't among them.
READING_PAGES = {"changelist", "history", *(f"{table}_change" for table in GUARDED if table != "keys_credential")}


def watch_logins() -> None:
    """Take a login for proof. Django tells of logins by a signal alone."""
    user_logged_in.connect(_logged_in, dispatch_uid="members.proof")


def prove(request: HttpRequest) -> None:
    """Note that the password was typed just now."""
    request.session[PROVED_AT] = int(time.time())


def is_fresh(request: HttpRequest) -> bool:
    """Tell whether the password was typed in the last minutes."""
    return bool(time.time() - request.session.get(PROVED_AT, 0) < FRESH_S)


def prove_url(path: str) -> str:
    """Return where the password is asked for on the way to `path`."""
    return f"{reverse('members:prove')}?{urlencode({'next': path})}"


class ProofMiddleware:
    """Send whoever is about to change a guarded table to the password first."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        match = request.resolver_match
        if match is None or match.app_name != "admin" or match.url_name is None:
            return None
        name = match.url_name
        table = next((table for table in GUARDED if name.startswith(f"{table}_")), None)
        is_reading = name in READING_PAGES or name.rpartition("_")[2] in READING_PAGES
        if table is None or (is_reading and request.method != "POST"):
            return None
        if is_fresh(request) or not request.user.has_perm(GUARDED[table]):
            return None
        if request.method == "POST":
            messages.warning(request, "Nothing was changed: it has been a while since you typed your password.")
        return HttpResponseRedirect(prove_url(request.get_full_path()))


def _logged_in(sender: Any, request: HttpRequest | None, **kwargs: Any) -> None:
    if request is not None and hasattr(request, "session"):
        prove(request)
