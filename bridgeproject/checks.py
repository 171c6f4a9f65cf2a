"""System checks of a deployment: each has an id, a hint and a link to the docs."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.core.checks import Warning as CheckWarning


@register(Tags.security, deploy=True)
def check_second_factor(**_: Any) -> list[CheckMessage]:
    if settings.REQUIRE_2FA:
        return []
    hint = "Enrol one, then set BRIDGE_REQUIRE_2FA=1. See docs/people.md, Logging in."
    return [CheckWarning("Staff can log in without a second factor.", hint=hint, id="bridge.W001")]
