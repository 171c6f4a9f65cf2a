"""The admin's side bar: its sections, and whom each page is for."""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse

from bridgeproject.own_calls import PERMISSION as MAY_CALL

#: Section -> pages: label, symbol, name of the URL, permission. An empty permission lets all staff in.
SECTIONS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "Usage": (
        ("Dashboard", "monitoring", "admin:index", "usage.view_usagerecord"),
        ("Reports", "table_chart", "usage_pages:report", "usage.view_usagerecord"),
        ("Answers", "speed", "usage_pages:answers", "usage.view_usagerecord"),
        ("Incident", "emergency", "usage_pages:incident", "usage.view_usagerecord"),
        ("Requests", "receipt_long", "admin:usage_usagerecord_changelist", "usage.view_usagerecord"),
        ("Budgets", "savings", "admin:usage_budget_changelist", "usage.view_budget"),
        ("Prices", "sell", "admin:usage_price_changelist", "usage.view_price"),
    ),
    "Keys": (
        ("Upstreams", "cloud", "admin:keys_upstream_changelist", "keys.view_upstream"),
        ("Credentials", "key", "admin:keys_credential_changelist", "keys.view_credential"),
        ("Upstream models", "neurology", "admin:keys_upstreammodel_changelist", "keys.view_upstreammodel"),
        ("Routes", "alt_route", "admin:keys_route_changelist", "keys.view_route"),
    ),
    "Members": (
        ("Client tokens", "badge", "admin:keys_clienttoken_changelist", "keys.view_clienttoken"),
        ("Users", "person", "admin:auth_user_changelist", "auth.view_user"),
        ("Teams and roles", "groups", "admin:auth_group_changelist", "auth.view_group"),
        ("Audit log", "history", "admin:members_auditentry_changelist", "members.view_auditentry"),
    ),
    "Tools": (
        ("Playground", "science", "playground", MAY_CALL),
        ("Model check", "fact_check", "model-check", MAY_CALL),
        ("API reference", "api", "api:openapi-view", ""),
        ("My own page", "home", "members:home", ""),
    ),
}

#: Pages that belong to another one, without lying below it.
BELOW = {"admin:usage_usagerecord_changelist": "/admin/usage/requests/"}


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sections with the pages that the user may open; those without any are left out."""
    user = request.user
    if not isinstance(user, User) or not user.is_staff:
        return []
    sections = [
        {
            "title": title,
            "separator": True,
            "items": [
                {"title": label, "icon": icon, "link": reverse(name), "active": _is_open(request, name)}
                for label, icon, name, permission in pages
                if not permission or user.has_perm(permission)
            ],
        }
        for title, pages in SECTIONS.items()
    ]
    return [section for section in sections if section["items"]]


def _is_open(request: HttpRequest, name: str) -> bool:
    """Tell whether a page, or one below it, is shown; everything lies below the first pages, so they only count
    themselves."""
    link = reverse(name)
    if name in ("admin:index", "members:home"):
        return request.path == link
    return request.path.startswith((link, BELOW.get(name, link)))
