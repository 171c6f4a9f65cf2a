"""Times are written in one form on all pages, whoever's template it is."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from keys.models import ClientToken
from keys.tokens import issue_token
from members.models import AuditEntry
from tests.members.ledger import add_record
from tests.members.test_pages import text_of
from usage.models import Budget

MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
OTHER_FORM = re.compile(rf"\b(?:{MONTHS})[a-z]*\.? \d|\d (?:{MONTHS})\b|\d [ap]\.m\.")


@pytest.fixture
def lead_and_root(lea: User) -> User:
    """Lea's account with all rights, a token, a budget, a session and a login."""
    User.objects.filter(pk=lea.pk).update(is_superuser=True, last_login=timezone.now())
    token, _ = issue_token(lea, "laptop")
    token.last_used_at = timezone.now()
    token.save()
    group = Group.objects.get(name="builders")
    Budget.objects.create(name="builders", subject="team", subject_id=group.pk, limit=10**9)
    add_record(lea, session_id="a-session")
    return lea


def test_every_page_writes_times_as_the_reports_do(client_of, lead_and_root: User) -> None:
    browser = client_of(lead_and_root)
    day = f"{timezone.now():%Y-%m-%d}"
    token, entry = ClientToken.objects.get(), AuditEntry.objects.latest("pk")

    for path in (
        "/",
        "/team/",
        "/sessions/a-session/",
        "/admin/keys/clienttoken/",
        f"/admin/keys/clienttoken/{token.pk}/change/",
        f"/admin/auth/user/{lead_and_root.pk}/change/",
        "/admin/auth/user/",
        f"/admin/members/auditentry/{entry.pk}/change/",
    ):
        page = text_of(browser.get(path))

        assert not OTHER_FORM.search(page), path
        assert day in page, path
