"""No page shows a stored secret: every address, as everybody, also where a form is refused and a view crashes."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.urls import reverse

from keys.credentials import add_secrets
from keys.models import Route, Upstream, UpstreamModel
from keys.tokens import issue_token
from members.models import AuditEntry
from tests.members.conftest import PASSWORD
from tests.members.crawl import addresses
from tests.members.ledger import add_record
from tests.members.test_leaks import see
from usage.models import Budget

CANARY = "sk-canary-7f3a9b2c4d5e6f"
QUERIES = ("", "?q=canary", "?q=%25", "?o=1", "?_popup=1", "?e=1", "?_to_field=id", "?format=csv")


@pytest.fixture
def planted(upstream: Upstream, bob: User, rita: User, root: User):
    """Rows of every kind, among them a credential and tokens with canaries; the secrets and the rows."""
    credential = add_secrets(upstream, [CANARY]).credentials[0]
    token, plain = issue_token(bob, "bob's laptop")
    _, other_plain = issue_token(rita)
    record = add_record(bob, token, credential_id=credential.pk, session_id="some-session")
    see("token", token.pk, bob)
    see("credential", credential.pk, bob, last_four=credential.last_four)
    route = Route.objects.create(alias="*")
    route.targets.create(upstream=upstream)
    rows = {
        "keys_upstream": upstream,
        "keys_credential": credential,
        "keys_clienttoken": token,
        "keys_route": route,
        "keys_upstreammodel": UpstreamModel.objects.create(upstream=upstream, name="m"),
        "usage_usagerecord": record,
        "usage_budget": Budget.objects.create(name="b", subject="user", subject_id=bob.pk, limit=1),
        "auth_user": bob,
        "auth_group": Group.objects.get(name="builders"),
        "members_auditentry": AuditEntry.objects.latest("id"),
    }
    hashed = User.objects.values_list("password", flat=True)
    secrets = [CANARY, CANARY[4:16], plain, plain[8:20], other_plain, other_plain[8:20], credential.sealed_secret]
    return [*secrets, token.digest, *(each.rpartition("$")[2] for each in hashed)], rows


@pytest.mark.parametrize("who", ["root", "ada", "sam", "lea", "bob", "nobody"])
def test_no_page_shows_a_secret(client_of, planted, who: str, request: pytest.FixtureRequest) -> None:
    secrets, rows = planted
    browser = client_of(None if who == "nobody" else request.getfixturevalue(who))
    browser.raise_request_exception = False
    seen = 0

    for name, address in addresses(rows):
        for query in QUERIES if name.endswith(("changelist", "home", "index")) else QUERIES[:1]:
            answer = browser.get(address + query)
            body = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
            shown = body.decode("utf-8", "replace")
            assert answer.status_code < 500 or "autocomplete" in name, (address + query, answer.status_code)
            assert not [secret for secret in secrets if secret in shown], address + query
            seen += answer.status_code == 200

    assert seen > {"root": 45, "ada": 45, "sam": 30, "lea": 8, "bob": 6, "nobody": 1}[who]
    written = [*LogEntry.objects.values(), *AuditEntry.objects.values()]
    written += [session.get_decoded() for session in Session.objects.all()]
    assert "canary" not in repr(written)


def test_refused_forms_and_error_pages_show_no_secret(client_of, planted, root: User, settings) -> None:
    secrets, rows = planted
    browser = client_of(root)
    browser.raise_request_exception = False
    pages = [
        browser.post(reverse("admin:keys_credential_add"), {"secret": CANARY, "label": ""}),
        browser.post(reverse("admin:keys_credential_change", args=[rows["keys_credential"].pk]), {"secret": CANARY}),
        browser.post("/prove/", {"password": CANARY}),
        browser.post("/login/", {"username": "root", "password": PASSWORD + "x"}),
        browser.get("/nowhere/"),
        browser.get("/admin/autocomplete/"),
    ]
    settings.DEBUG = True
    pages += [browser.get("/nowhere/"), browser.get("/admin/autocomplete/?app_label=keys&model_name=credential")]

    for page in pages:
        shown = page.content.decode()
        assert not [secret for secret in (*secrets, PASSWORD, settings.ENCRYPTION_KEYS) if secret in shown], page
