"""What pages say of a secret that was seen in a request's text: to whom, and until when."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from keys.credentials import add_secrets, set_secret
from keys.models import ClientToken, Credential, Sighting, Upstream
from keys.tokens import issue_token, revoke_token

SEEN = "Seen in a request's text on "
SECRET = "sk-canary-7f3a9b2c4d5e6f"


def see(kind: str, secret_id: int, by: User, *, last_four: str = "") -> Sighting:
    now = timezone.now()
    return Sighting.objects.create(
        kind=kind,
        secret_id=secret_id,
        last_four=last_four,
        first_at=now,
        last_at=now,
        times=3,
        request_id="req_1",
        user=by,
    )


@pytest.fixture
def token(bob: User) -> ClientToken:
    return issue_token(bob, "laptop")[0]


@pytest.fixture
def credential(upstream: Upstream) -> Credential:
    return add_secrets(upstream, [SECRET]).credentials[0]


def shown(client_of, user: User, address: str) -> str:
    answer = client_of(user).get(address)
    assert answer.status_code == 200, (address, answer.status_code)
    return str(answer.content.decode()).replace("&#x27;", "'")


def page_of(row: ClientToken | Credential) -> str:
    return reverse(f"admin:keys_{row._meta.model_name}_change", args=[row.pk])


def test_an_admin_reads_of_a_credential_until_it_has_another_secret(
    client_of, ada: User, bob: User, credential: Credential
) -> None:
    see("credential", credential.pk, bob, last_four=credential.last_four)

    page = shown(client_of, ada, page_of(credential))
    assert SEEN in page
    assert "by <bdi>bob</bdi>: rotate it" in page
    assert "in 3 requests since" in page
    assert reverse("usage_pages:request", args=["req_1"]) in page
    assert "to be rotated" in shown(client_of, ada, "/admin/keys/credential/")

    set_secret(credential, "sk-another-0123456789")
    assert SEEN not in shown(client_of, ada, page_of(credential))
    assert "to be rotated" not in shown(client_of, ada, "/admin/keys/credential/")


def test_an_admin_dismisses_a_leak(client_of, ada: User, bob: User, credential: Credential) -> None:
    sighting = see("credential", credential.pk, bob, last_four=credential.last_four)
    address = f"{page_of(credential).removesuffix('change/')}dismiss-leak/"
    browser = client_of(ada)
    assert "keeps quiet" in browser.get(address).content.decode()
    assert SEEN in shown(client_of, ada, page_of(credential)), "looking changes nothing"

    browser.post(address)

    assert SEEN not in shown(client_of, ada, page_of(credential))
    assert LogEntry.objects.get().change_message == "Leak dismissed."
    sighting.refresh_from_db()
    assert sighting.dismissed_at is not None
    assert browser.post(address).status_code in (403, 404)


def test_support_sees_leaks_and_dismisses_none(
    client_of, sam: User, bob: User, credential: Credential, token: ClientToken
) -> None:
    see("credential", credential.pk, bob, last_four=credential.last_four)
    see("token", token.pk, bob)

    for row in (credential, token):
        assert SEEN in shown(client_of, sam, page_of(row))
        assert "dismiss-leak" not in shown(client_of, sam, page_of(row))
        answer = client_of(sam).post(f"{page_of(row).removesuffix('change/')}dismiss-leak/")
        assert answer.status_code in (302, 403)
    assert Sighting.objects.filter(dismissed_at=None).count() == 2


def test_a_lead_sees_the_teams_tokens_and_no_name_of_another_team(
    client_of, lea: User, bob: User, rita: User, token: ClientToken, credential: Credential
) -> None:
    sighting = see("token", token.pk, rita)
    see("credential", credential.pk, bob, last_four=credential.last_four)
    hers, _ = issue_token(rita, "crane")
    see("token", hers.pk, bob)

    page = shown(client_of, lea, page_of(token))
    assert "by <bdi>a member of another team</bdi>" in page
    assert "rita" not in page
    assert "req_1" not in page
    listed = shown(client_of, lea, "/admin/keys/clienttoken/")
    assert "bob / laptop" in listed
    assert "crane" not in listed
    assert client_of(lea).get(page_of(hers)).status_code == 404
    assert client_of(lea).get(page_of(credential)).status_code in (302, 403)

    Sighting.objects.filter(pk=sighting.pk).update(user=bob)
    assert "by <bdi>bob</bdi>" in shown(client_of, lea, page_of(token))


def test_a_member_sees_it_beside_the_token_and_rotates_at_once(client_of, bob: User, token: ClientToken) -> None:
    see("token", token.pk, bob)

    assert "Seen in a request: rotate it" in shown(client_of, bob, "/")
    page = shown(client_of, bob, f"/tokens/{token.pk}/leak/")
    assert "a request of yours" in page
    assert f'href="/tokens/{token.pk}/rotate/"' in page
    rotate = shown(client_of, bob, f"/tokens/{token.pk}/rotate/")
    assert '<option value="0" selected>' in rotate

    client_of(bob).post(f"/tokens/{token.pk}/rotate/", {"hours": "0"})
    assert "Seen in a request" not in shown(client_of, bob, "/")
    assert client_of(bob).get(f"/tokens/{token.pk}/leak/").status_code == 404


def test_a_member_learns_no_name_from_somebody_elses_request(
    client_of, bob: User, rita: User, token: ClientToken
) -> None:
    see("token", token.pk, rita)

    page = shown(client_of, bob, f"/tokens/{token.pk}/leak/")
    assert "a request of somebody else" in page
    assert "rita" not in page
    assert "req_1" not in page


def test_a_member_dismisses_the_own_leak_and_nobody_elses(client_of, bob: User, rita: User, token: ClientToken) -> None:
    see("token", token.pk, bob)
    for method in ("get", "post"):
        assert getattr(client_of(rita), method)(f"/tokens/{token.pk}/leak/").status_code == 404
    assert "Seen in a request" not in shown(client_of, rita, "/")
    assert "Seen in a request" in shown(client_of, bob, "/")

    client_of(bob).post(f"/tokens/{token.pk}/leak/")

    assert "Seen in a request" not in shown(client_of, bob, "/")


def test_a_token_that_ended_is_told_of_no_more(client_of, ada: User, bob: User, token: ClientToken) -> None:
    see("token", token.pk, bob)
    assert SEEN in shown(client_of, ada, page_of(token))

    revoke_token(token.pk)

    assert SEEN not in shown(client_of, ada, page_of(token))
    assert client_of(bob).get(f"/tokens/{token.pk}/leak/").status_code == 404


def test_where_nothing_was_seen_nothing_is_said(client_of, ada: User, credential: Credential) -> None:
    assert SEEN not in shown(client_of, ada, page_of(credential))
    assert "dismiss-leak" not in shown(client_of, ada, page_of(credential))
    for pk in (credential.pk, 10**9, "x"):
        assert client_of(ada).get(f"/admin/keys/credential/{pk}/dismiss-leak/").status_code in (302, 403, 404)
