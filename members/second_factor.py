"""The second factor: who needs it, and enrolling a phone (TOTP) with codes for when the phone is lost."""

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import segno
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django_otp import devices_for_user
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

#: Names of views that are open before the second factor was shown.
OPEN_VIEWS = {"members:second-factor", "members:login", "members:logout", "admin:login", "admin:logout"}
CODES = 10
VERIFIED = "bridge_second_factor"


class SecondFactorMiddleware:
    """Ask for the second factor whoever has one, and all staff where the operator demands it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        match = request.resolver_match
        if (match is not None and match.view_name in OPEN_VIEWS) or not is_missing(request.user):
            return None
        query = urlencode({"next": request.get_full_path()})
        return HttpResponseRedirect(f"{reverse('members:second-factor')}?{query}")


def is_missing(user: Any) -> bool:
    """Tell whether a logged-in user still has to show a second factor."""
    if not user.is_authenticated or user.is_verified():
        return False
    return (settings.REQUIRE_2FA and user.is_staff) or is_enrolled(user)


def is_enrolled(user: Any) -> bool:
    """Tell whether a user has a second factor."""
    return next(iter(devices_for_user(user)), None) is not None


def begin_enrolment(user: Any) -> TOTPDevice:
    """Return the device that is being enrolled; the same one until it is confirmed."""
    device, _ = TOTPDevice.objects.get_or_create(user=user, confirmed=False, defaults={"name": "authenticator app"})
    return device


@transaction.atomic
def confirm_enrolment(device: TOTPDevice) -> list[str]:
    """Take the device into use; return backup codes, which are shown only now."""
    device.confirmed = True
    device.save(update_fields=["confirmed"])
    StaticDevice.objects.filter(user=device.user).delete()
    backup = StaticDevice.objects.create(user=device.user, name="backup codes")
    codes = [StaticToken.random_token() for _ in range(CODES)]
    StaticToken.objects.bulk_create(StaticToken(device=backup, token=code) for code in codes)
    return codes


@transaction.atomic
def remove_second_factor(user: Any) -> int:
    """Remove a user's second factor; return how many devices there were."""
    removed = 0
    for device in [*TOTPDevice.objects.filter(user=user), *StaticDevice.objects.filter(user=user)]:
        device.delete()
        removed += 1
    return removed


def drawn(device: TOTPDevice) -> str:
    """Draw the device's secret as a QR code, as the address of an image."""
    return segno.make(device.config_url, error="m").svg_data_uri(scale=5, border=2, dark="#111827", light="#fff")


def spelled(device: TOTPDevice) -> str:
    """Spell the device's secret for typing."""
    letters = base64.b32encode(device.bin_key).decode().rstrip("=")
    return " ".join(letters[start : start + 4] for start in range(0, len(letters), 4))
