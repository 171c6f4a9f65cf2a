"""What the first `up` makes besides the database: an administrator, a client token, the demo's route."""

import secrets
from dataclasses import dataclass
from io import StringIO

from django.contrib.auth import get_user_model
from django.core.management import call_command

from keys.credentials import add_secrets
from keys.models import ClientToken, Route, Upstream
from keys.tokens import issue_token

ADMIN_NAME = "admin"
DEMO_NAME = "demo"
#: The scripted upstream takes any key.
DEMO_KEY = "sk-demo-0001"
#: It thinks when it is asked to.
DEMO_SWITCHES = {"reasoning_request": "effort", "reasoning_assumed": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What can be shown only now; None where it was there before."""

    admin_password: str | None
    token: str | None


def make_first_things() -> Made:
    """Make an administrator and a client token of theirs, unless somebody has them already."""
    users = get_user_model()
    password = None
    admin = users.objects.filter(is_superuser=True).order_by("pk").first()
    if admin is None:
        password = secrets.token_urlsafe(12)
        admin = users.objects.create_superuser(ADMIN_NAME, password=password)
    if ClientToken.objects.exists():
        return Made(admin_password=password, token=None)
    _, plain = issue_token(admin, name="first")
    return Made(admin_password=password, token=plain)


def point_at_demo(base_url: str | None) -> None:
    """Route every name that has no route of its own to the scripted upstream at `base_url`.

    Without a URL an upstream left over from an earlier demo is switched off.
    """
    if base_url is None:
        Upstream.objects.filter(name=DEMO_NAME).update(enabled=False)
        return
    changes = {"base_url": base_url, "enabled": True}
    upstream, _ = Upstream.objects.update_or_create(
        name=DEMO_NAME, defaults=changes, create_defaults={**changes, "profile_overrides": DEMO_SWITCHES}
    )
    # A new address takes an upstream's secrets away, so the credential gets its own again.
    add_secrets(upstream, [DEMO_KEY])
    if not Route.objects.filter(alias="*").exists():
        call_command("add_route", "*", DEMO_NAME, stdout=StringIO())
