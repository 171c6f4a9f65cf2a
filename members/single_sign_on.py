"""Single sign-on by OpenID Connect, through django-allauth; only imported where it is configured.

The provider is trusted for whom it names: a member is found by the account linked before, else by an address that the
provider calls verified and exactly one active user has. Nobody becomes staff this way.
"""

from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

REFUSED = "Single sign-on gave no account here. Ask whoever runs Bridge for you."


class OidcAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth is skipped by mypy
    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Link the stranger to the member whose address it is, or turn them away."""
        if sociallogin.is_existing:
            return
        member = member_with([each.email for each in sociallogin.email_addresses if each.verified])
        if member is not None:
            sociallogin.connect(request, member)
        elif not settings.OIDC_CREATE_MEMBERS:
            raise ImmediateHttpResponse(refuse(request))

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return bool(settings.OIDC_CREATE_MEMBERS)

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: Any) -> bool:
        # An address that isn't verified and belongs to somebody here must not lead to a form that asks for another.
        return True

    def on_authentication_error(self, request: HttpRequest, provider: Any, **kwargs: Any) -> None:
        raise ImmediateHttpResponse(refuse(request))


def member_with(emails: list[str]) -> User | None:
    """Return the one active user with one of these addresses; None when nobody or several have."""
    found = [user for email in emails if email for user in User.objects.filter(email__iexact=email, is_active=True)]
    return found[0] if len(found) == 1 else None


def refuse(request: HttpRequest, **_: Any) -> HttpResponse:
    """Lead back to the login; also the view of allauth's own pages that Bridge has no use for."""
    messages.error(request, REFUSED)
    return redirect("members:login")
