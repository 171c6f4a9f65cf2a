"""No page breaks on a name, whoever looks."""

import re
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from keys.roles import Role, give_role
from tests.members.conftest import PASSWORD
from tests.members.crawl import addresses
from tests.members.hostile import MARKUP, fill, hostile

#: Answers that are no page of markup.
NO_MARKUP = ("text/csv", "application/json", "text/plain", "application/yaml", "text/javascript")
#: Markup of ours that an address or a name must never become.
RAW = re.compile(r"<img src=x|</script></title>|</textarea>\u202e")


def check(browser, address: str) -> str:
    answer = browser.get(address)
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    shown: str = body.decode("utf-8", "replace")
    assert answer.status_code < 500, address
    if not answer.headers.get("Content-Type", "").startswith(NO_MARKUP):
        assert not RAW.search(shown), address
    return shown


@pytest.mark.parametrize("who", ["superuser", "lead", "member"])
def test_no_page_breaks_on_a_hostile_name(client_of, roles, who: str) -> None:
    user = User.objects.create_user(hostile(150), password=PASSWORD)
    rows = fill(user)
    if who == "superuser":
        User.objects.filter(pk=user.pk).update(is_superuser=True, is_staff=True)
    elif who == "lead":
        give_role(user, Role.LEAD)
    browser = client_of(User.objects.get(pk=user.pk))
    browser.raise_request_exception = False
    record = rows["usage_usagerecord"]
    more = [
        reverse("members:session", args=[hostile(128)]),
        reverse("usage_pages:request", args=[record.request_id]),  # type: ignore[attr-defined]
        *(f"{reverse('usage_pages:report')}?by={by}" for by in ("user", "team", "model", "credential", "client")),
        f"{reverse('usage_pages:report')}?{urlencode({'by': 'day', 'model': hostile(200)})}",
        f"{reverse('members:team')}?days=90",
        *(f"{reverse('admin:usage_usagerecord_changelist')}?{urlencode({'q': text})}" for text in (hostile(), MARKUP)),
    ]

    # Without its parameters Django's view for completion fails by design.
    pages = [address for name, address in addresses(rows) if not name.endswith(":autocomplete")]
    shown = "".join(check(browser, address) for address in [*pages, *more])

    assert "&lt;img src=x" in shown


def test_hostile_input_is_refused_or_shown_as_text(client_of, roles) -> None:
    user = User.objects.create_user("mallory", password=PASSWORD)
    browser = client_of(user)
    pages = [
        browser.post(reverse("members:token-new"), {"name": hostile(100), "days": "30"}),
        browser.post(reverse("members:token-new"), {"name": hostile(), "days": "30"}),
        browser.post("/login/", {"username": hostile(), "password": hostile()}),
        browser.post("/prove/", {"password": hostile()}),
        browser.get(f"/login/?{urlencode({'next': hostile()})}"),
        browser.get(f"/?{urlencode({'days': hostile()})}"),
        browser.get(f"/team/?{urlencode({'team': hostile(), 'days': hostile()})}"),
        browser.get(f"/sessions/{urlencode({'': hostile()})}/"),
    ]

    for page in pages:
        assert page.status_code < 500
        assert not RAW.search(page.content.decode())
