import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.models import Session
from django.core import management
from django.urls import reverse
from django.utils import timezone

from keys.credentials import add_secrets, unseal_secret
from keys.models import ClientToken, Credential, CredentialState, Route, Upstream, Worker
from keys.ring import key_ring
from keys.standing import upstream_state
from keys.tokens import digest, issue_token

CANARY = "sk-canary-7f3a9b2c4d5e6f"
MODELS = ["upstream", "credential", "upstreammodel", "route", "clienttoken"]


@pytest.fixture
def credential(upstream: Upstream) -> Credential:
    return add_secrets(upstream, [CANARY]).credentials[0]


def form_of(credential: Credential, **changes: object) -> dict[str, object]:
    fields = {"upstream": credential.upstream_id, "label": credential.label, "enabled": "on", "secret": ""}
    return fields | {"priority": 0, "weight": 1, "rpm": "", "tpm": "", "concurrency": ""} | changes


def pages_of(credential: Credential, token: ClientToken, route: Route) -> list[str]:
    """Every admin page of the app, with the ways there that are easily forgotten."""
    rows = {
        "upstream": credential.upstream_id,
        "credential": credential.pk,
        "clienttoken": token.pk,
        "route": route.pk,
    }
    pages = ["/admin/", "/admin/keys/", "/admin/jsi18n/", "/admin/autocomplete/?app_label=keys&model_name=x"]
    for model in MODELS:
        changelist = reverse(f"admin:keys_{model}_changelist")
        pages += [changelist, changelist + "?q=canary", changelist + "?state=ready", changelist + "add/"]
    for model, pk in rows.items():
        for page in ("change", "history", "delete"):
            pages.append(reverse(f"admin:keys_{model}_{page}", args=[pk]))
    return [*pages, "/admin/auth/user/", "/admin/auth/group/"]


def test_no_page_shows_a_stored_secret(client_of, alice: User, bob: User, credential: Credential) -> None:
    route = Route.objects.create(alias="*")
    route.targets.create(upstream=credential.upstream)
    token, plain = issue_token(bob)
    browser = client_of(alice)
    url = reverse("admin:keys_credential_change", args=[credential.pk])
    # Errors render the form again; history and messages tell what changed.
    browser.post(url, form_of(credential, secret=CANARY + "-second", weight=0))
    browser.post(url, form_of(credential, secret=CANARY + "-second"))

    for page in pages_of(credential, token, route):
        answer = browser.get(page, follow=True)
        assert answer.status_code in (200, 403, 404), page
        for secret in (CANARY, plain):
            assert secret not in answer.content.decode(), page
            assert secret[4:16] not in answer.content.decode(), page

    written = repr(list(LogEntry.objects.values())) + repr([row.get_decoded() for row in Session.objects.all()])
    assert "canary" not in written


def test_a_rejected_form_does_not_give_the_secret_back(client_of, alice: User, upstream: Upstream) -> None:
    new = Credential(upstream=upstream, label="")
    answer = client_of(alice).post(reverse("admin:keys_credential_add"), form_of(new, secret=CANARY))

    assert answer.status_code == 200
    assert "canary" not in answer.content.decode()
    assert not Credential.objects.exists()


def test_a_new_credential_has_no_state_yet(client_of, alice: User, credential: Credential) -> None:
    browser = client_of(alice)
    new = browser.get(reverse("admin:keys_credential_add"))
    stored = browser.get(reverse("admin:keys_credential_change", args=[credential.pk]))

    assert [title for title, _ in new.context["adminform"].fieldsets] == [None, "Limits and order"]
    assert new.context["adminform"].form.fields["secret"].required
    assert "Last success" in stored.content.decode()
    assert not stored.context["adminform"].form.fields["secret"].required


def test_a_rows_name_keeps_its_small_letters(client_of, alice: User, credential: Credential) -> None:
    page = client_of(alice).get(reverse("admin:keys_credential_change", args=[credential.pk]))

    assert f"<bdi>{credential}</bdi>" in page.content.decode()


def test_dumpdata_holds_only_sealed_text(credential: Credential, capsys: pytest.CaptureFixture[str]) -> None:
    management.call_command("dumpdata", "keys")

    dumped = capsys.readouterr().out
    assert credential.label in dumped
    assert "canary" not in dumped


def test_a_secret_is_stored_sealed_and_replaced_by_the_form(client_of, alice: User, credential: Credential) -> None:
    url = reverse("admin:keys_credential_change", args=[credential.pk])
    CredentialState.objects.create(credential=credential, state="quarantined", cause="wrong_key")

    answer = client_of(alice).post(url, form_of(credential, secret=" export ACME_KEY='sk-fresh-canary-0001' \n"))

    assert answer.status_code == 302, answer.context["errors"]
    credential.refresh_from_db()
    assert unseal_secret(credential, key_ring()) == "sk-fresh-canary-0001"
    assert credential.last_four == "0001"
    assert not credential.states.exists()


def test_an_empty_secret_keeps_the_stored_one(client_of, alice: User, credential: Credential) -> None:
    url = reverse("admin:keys_credential_change", args=[credential.pk])

    client_of(alice).post(url, form_of(credential, label="renamed"))

    credential.refresh_from_db()
    assert credential.label == "renamed"
    assert unseal_secret(credential, key_ring()) == CANARY


@pytest.mark.parametrize("typed", ["", "two words", "sk-ünicode", "sk-nul\x00here", "a\u00a0b-c", "abc"])
def test_what_is_no_secret_is_refused_with_a_reason(client_of, alice: User, upstream: Upstream, typed: str) -> None:
    new = Credential(upstream=upstream, label="new")

    answer = client_of(alice).post(reverse("admin:keys_credential_add"), form_of(new, secret=typed))

    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors["secret"]
    assert not Credential.objects.exists()


def test_the_list_shows_each_state(client_of, alice: User, upstream: Upstream) -> None:
    ready, cooling, moved, off = add_secrets(upstream, [f"sk-state-{n}-0000" for n in range(4)]).credentials
    CredentialState.objects.create(
        credential=cooling, state="cooling", cause="rate_limit", until="2999-01-01T00:00:00Z", failures=1
    )
    Credential.objects.filter(pk=moved.pk).update(sealed_secret=ready.sealed_secret)
    Credential.objects.filter(pk=off.pk).update(enabled=False)
    browser = client_of(alice)

    page = browser.get(reverse("admin:keys_credential_changelist")).content.decode()
    for word in ("ready", "cooling", "rate limit", "undecryptable", "disabled"):
        assert word in page

    for state, row in {"ready": ready, "cooling": cooling, "undecryptable": moved, "disabled": off}.items():
        listed = browser.get(reverse("admin:keys_credential_changelist") + f"?state={state}")
        assert [shown.pk for shown in listed.context["cl"].result_list] == [row.pk]


def test_what_made_a_rest_that_is_over_is_not_told(client_of, alice: User, credential: Credential) -> None:
    CredentialState.objects.create(
        credential=credential, state="cooling", cause="rate_limit", until="2026-01-01T00:00:00Z", failures=1
    )
    Credential.objects.update(draining=True)
    browser = client_of(alice)

    listed = browser.get(reverse("admin:keys_credential_changelist"))
    page = browser.get(reverse("admin:keys_credential_change", args=[credential.pk]))

    for answer in (listed, page):
        assert "draining" in answer.content.decode()
        assert "rate limit" not in answer.content.decode()
        assert "2026-01-01" not in answer.content.decode()


def test_the_list_shows_the_load_of_all_live_workers_against_the_limits(
    client_of, alice: User, credential: Credential
) -> None:
    Credential.objects.update(concurrency=10, rpm=60)
    lasting = timezone.now() + timedelta(minutes=5)  # however long the pages take
    Worker.objects.create(id="one", loads={credential.pk: [2, 5, 700]}, heartbeat_at=lasting)
    Worker.objects.create(id="two", loads={credential.pk: [1, 1, 0], 999: [1, 1, 1]}, heartbeat_at=lasting)
    Worker.objects.create(
        id="dead", loads={credential.pk: [9, 9, 9]}, heartbeat_at=timezone.now() - timedelta(seconds=11)
    )

    for url in (
        reverse("admin:keys_credential_changelist"),
        reverse("admin:keys_credential_change", args=[credential.pk]),
    ):
        shown = client_of(alice).get(url).content.decode()
        assert "3 of 10 open, 6 of 60 requests/min, 700 tokens/min" in shown


def test_an_upstream_that_rests_is_shown_so(client_of, alice: User, upstream: Upstream) -> None:
    upstream.states.create(state="cooling", cause="throttled", until="2999-01-01T00:00:00Z")
    upstream.states.create(state="cooling", cause="overloaded", until="2999-01-01T00:00:00Z", model_name="big")
    browser = client_of(alice)

    assert "cooling" in browser.get(reverse("admin:keys_upstream_changelist")).content.decode()
    page = browser.get(reverse("admin:keys_upstream_change", args=[upstream.pk])).content.decode()
    assert "rate limit of the whole account" in page
    assert "the model is overloaded" in page


@pytest.mark.parametrize(
    ("of_upstream", "of_credentials", "words"),
    [
        ({}, [], "no credential"),
        ({}, [{}], "ready"),
        ({}, [{"enabled": False}, {"sealed_secret": ""}], "credentials without secret"),
        ({}, [{"enabled": False}], "credentials disabled"),
        ({}, [{"sealed_secret": "v1:none:AAAA"}], "credentials undecryptable"),
        ({}, [{"enabled": False}, {}], "ready"),
        ({}, [{"draining": True}], "credentials draining"),
        ({"enabled": False}, [{}], "disabled"),
    ],
)
def test_an_upstream_says_what_it_lacks(
    client_of,
    alice: User,
    upstream: Upstream,
    of_upstream: dict[str, object],
    of_credentials: list[dict[str, object]],
    words: str,
) -> None:
    for number, changes in enumerate(of_credentials):
        [made] = add_secrets(upstream, [f"sk-lacking-{number}-0000"]).credentials
        Credential.objects.filter(pk=made.pk).update(**changes)
    Upstream.objects.filter(pk=upstream.pk).update(**of_upstream)
    browser = client_of(alice)

    listed = browser.get(reverse("admin:keys_upstream_changelist"))
    page = browser.get(reverse("admin:keys_upstream_change", args=[upstream.pk])).content.decode()

    [row] = listed.context["cl"].result_list
    assert upstream_state(row, key_ring()) == words
    assert f">{words}<" in re.sub(r"\s*([<>])\s*", r"\1", listed.content.decode())
    assert words in page


def test_an_upstream_whose_only_credential_rests_says_so(client_of, alice: User, credential: Credential) -> None:
    CredentialState.objects.create(credential=credential, state="quarantined", cause="auth", failures=1)

    page = client_of(alice).get(reverse("admin:keys_upstream_changelist")).content.decode()

    assert "credentials quarantined" in page


def test_the_list_of_upstreams_takes_the_same_queries_for_many(
    client_of, alice: User, upstream: Upstream, django_assert_max_num_queries
) -> None:
    for number in range(20):
        other = Upstream.objects.create(name=f"other-{number}", base_url="https://other.example/v1")
        add_secrets(other, [f"sk-many-{number}-{place}" for place in range(3)])
    browser = client_of(alice)

    with django_assert_max_num_queries(14):
        browser.get(reverse("admin:keys_upstream_changelist"))


def test_the_list_takes_the_same_queries_for_many_rows(
    client_of, alice: User, upstream: Upstream, django_assert_max_num_queries
) -> None:
    add_secrets(upstream, [f"sk-many-{number}" for number in range(60)])
    browser = client_of(alice)

    with django_assert_max_num_queries(14):
        browser.get(reverse("admin:keys_credential_changelist"))


@pytest.mark.parametrize(
    ("action", "field", "value"),
    [("disable", "enabled", False), ("drain", "draining", True), ("enable", "enabled", True)],
)
def test_actions_switch_credentials(
    client_of, alice: User, credential: Credential, action: str, field: str, value: bool
) -> None:
    data = {"action": action, "_selected_action": [credential.pk]}

    client_of(alice).post(reverse("admin:keys_credential_changelist"), data)

    credential.refresh_from_db()
    assert getattr(credential, field) is value
    assert LogEntry.objects.filter(object_id=str(credential.pk)).exists()


def test_forgetting_states_restores_a_credential(client_of, alice: User, credential: Credential) -> None:
    CredentialState.objects.create(credential=credential, state="quarantined", cause="no_credit")
    data = {"action": "restore", "_selected_action": [credential.pk]}

    client_of(alice).post(reverse("admin:keys_credential_changelist"), data)

    assert not credential.states.exists()


def test_a_token_is_shown_once_when_issued(client_of, alice: User, bob: User) -> None:
    browser = client_of(alice)
    url = reverse("admin:keys_clienttoken_add")
    data = {"user": bob.pk, "name": "laptop", "days": 30, "models": "claude-*, gpt-5", "rpm": "", "tpm": "10000"}
    data["networks"] = "10.0.0.0/8, 192.0.2.7"

    answer = browser.post(url, data)

    row = ClientToken.objects.get()
    found = re.search(r"brg_[0-9A-Za-z]{39}", answer.content.decode())
    assert found is not None
    assert digest(found[0]) == row.digest
    assert (row.scopes, row.tpm, row.rpm) == (["claude-*", "gpt-5"], 10_000, None)
    assert row.networks == ["10.0.0.0/8", "192.0.2.7/32"]
    assert "no-store" in answer["Cache-Control"]
    for page in (url, reverse("admin:keys_clienttoken_change", args=[row.pk]), "/admin/"):
        assert found[0][8:20] not in browser.get(page).content.decode()
    assert found[0] not in repr([session.get_decoded() for session in Session.objects.all()])
    assert found[0] not in repr(list(LogEntry.objects.values()))
    assert found[0] not in str(browser.cookies)


def test_a_mistake_in_a_tokens_networks_is_told(client_of, alice: User, bob: User) -> None:
    row, _ = issue_token(bob, networks=["10.0.0.0/8"])
    url = reverse("admin:keys_clienttoken_change", args=[row.pk])
    browser = client_of(alice)

    answer = browser.post(url, {"name": "x", "models": "", "networks": "10.0.0.0/8, the office"})

    assert "the is neither an address nor a network" in answer.content.decode()
    assert ClientToken.objects.get().networks == ["10.0.0.0/8"]
    assert 'value="10.0.0.0/8"' in browser.get(url).content.decode()


def test_a_token_can_be_edited_but_not_its_user_nor_its_life(client_of, alice: User, bob: User) -> None:
    row, _ = issue_token(bob)
    data = {"user": alice.pk, "name": "renamed", "days": 300, "models": "", "rpm": "5", "expires_at_0": "2030-01-01"}

    client_of(alice).post(reverse("admin:keys_clienttoken_change", args=[row.pk]), data)

    fresh = ClientToken.objects.get()
    assert (fresh.name, fresh.rpm) == ("renamed", 5)
    assert (fresh.user, fresh.expires_at, fresh.digest) == (bob, row.expires_at, row.digest)


def test_tokens_are_revoked_by_an_action(client_of, alice: User, bob: User) -> None:
    row, _ = issue_token(bob)
    data = {"action": "revoke", "_selected_action": [row.pk]}

    client_of(alice).post(reverse("admin:keys_clienttoken_changelist"), data)

    row.refresh_from_db()
    assert row.revoked_at is not None


@pytest.mark.parametrize("days", ["0", "366", "", "soon"])
def test_a_token_can_not_live_for_ever(client_of, alice: User, bob: User, days: str) -> None:
    client_of(alice).post(reverse("admin:keys_clienttoken_add"), {"user": bob.pk, "name": "x", "days": days})

    assert not ClientToken.objects.exists()


def upstream_form(upstream: Upstream, **changes: object) -> dict[str, object]:
    names = ["name", "dialect", "base_url", "connect_timeout_s", "first_byte_timeout_s", "idle_timeout_s"]
    fields = {name: getattr(upstream, name) for name in names}
    return fields | {"total_timeout_s": 60, "profile": "", "profile_overrides": "{}", "enabled": "on"} | changes


def test_a_new_base_url_clears_the_secrets_and_says_so(client_of, alice: User, credential: Credential) -> None:
    url = reverse("admin:keys_upstream_change", args=[credential.upstream_id])

    answer = client_of(alice).post(
        url, upstream_form(credential.upstream, base_url="https://elsewhere.example/v1/"), follow=True
    )

    credential.refresh_from_db()
    assert credential.sealed_secret == ""
    assert Upstream.objects.get().base_url == "https://elsewhere.example/v1"
    assert "enter them again" in answer.content.decode()


@pytest.mark.parametrize("url", ["http://api.acme.example/v1", "https://169.254.169.254/", "javascript:alert(1)"])
def test_a_refused_base_url_is_not_saved(client_of, alice: User, upstream: Upstream, url: str) -> None:
    page = reverse("admin:keys_upstream_change", args=[upstream.pk])

    answer = client_of(alice).post(page, upstream_form(upstream, base_url=url))

    assert answer.context["adminform"].form.errors["base_url"]
    upstream.refresh_from_db()
    assert upstream.base_url == "https://api.acme.example/v1"


def test_charlie_sees_nothing(client_of, charlie: User, bob: User, credential: Credential) -> None:
    route = Route.objects.create(alias="*")
    token, _ = issue_token(bob)
    browser = client_of(charlie)

    for page in pages_of(credential, token, route):
        answer = browser.get(page)
        if page not in ("/admin/", "/admin/jsi18n/"):
            assert answer.status_code in (403, 404), page
        assert credential.label not in answer.content.decode()


def test_charlie_changes_nothing(client_of, charlie: User, bob: User, credential: Credential) -> None:
    token, _ = issue_token(bob)
    browser = client_of(charlie)
    for model, row in (("credential", credential), ("clienttoken", token)):
        for action in ("disable", "drain", "restore", "revoke", "delete_selected"):
            data = {"action": action, "_selected_action": [row.pk], "post": "yes"}
            assert browser.post(reverse(f"admin:keys_{model}_changelist"), data).status_code == 403

    assert Credential.objects.get().enabled
    assert ClientToken.objects.get().revoked_at is None


def test_who_may_only_look_has_no_actions(client_of, charlie: User, credential: Credential) -> None:
    charlie.user_permissions.add(Permission.objects.get(codename="view_credential"))
    browser = client_of(charlie)
    data = {"action": "disable", "_selected_action": [credential.pk]}

    page = browser.get(reverse("admin:keys_credential_change", args=[credential.pk]))
    browser.post(reverse("admin:keys_credential_changelist"), data)

    assert page.status_code == 200
    assert "canary" not in page.content.decode()
    assert Credential.objects.get().enabled


def test_a_member_without_staff_rights_is_sent_to_the_login(client_of, bob: User) -> None:
    answer = client_of(bob).get(reverse("admin:keys_credential_changelist"))

    assert answer.status_code == 302
    assert "/admin/login/" in answer["Location"]


def test_the_list_names_the_models_that_a_credential_rests_for(client_of, alice: User, credential: Credential) -> None:
    soon, past = timezone.now() + timedelta(hours=1), timezone.now() - timedelta(seconds=1)
    for name, until in (("opus", soon), ("haiku", soon), ("sonnet", soon), ("old", past)):
        credential.states.create(model_name=name, state="cooling", cause="rate_limit", until=until)

    page = client_of(alice).get("/admin/keys/credential/").content.decode()

    assert "haiku: rate limit; opus: rate limit; 1 more" in page
    assert "old: " not in page
