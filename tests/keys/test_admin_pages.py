"""Pasting keys, testing a credential, syncing models; upstreams are played by one handed in."""

from collections.abc import Iterator

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.urls import reverse

from keys import outside
from keys.admin.credentials import TESTS_A_MINUTE, _tests
from keys.credentials import add_secrets, unseal_secret
from keys.entries import CredentialEntry, UpstreamEntry
from keys.models import Credential, Upstream, UpstreamModel
from keys.outside import Listed, Unanswered
from keys.ring import key_ring

PASTED = """
# our keys
export ACME_KEY=sk-canary-one-0001
ACME_KEY_2="sk-canary-two-0002",
Authorization: Bearer sk-canary-three-0003
  'sk-canary-four-0004'

sk-canary-one-0001
not a key at all
api_key: sk-canary-five-0005
YWJjZGVmZ2hpag==
sk-bad\u00a0canary
"""


class Played:
    """Plays upstreams."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.listed: list[Listed] | Unanswered = []

    def try_credential(self, upstream: UpstreamEntry, credential: CredentialEntry, model: str) -> outside.Tested:
        self.calls.append((upstream.name, credential.secret(), model))
        return outside.Tested(is_ok=False, status=401, duration_ms=42, words="<b>Invalid</b> key [secret]")

    def list_models(self, upstream: UpstreamEntry, credential: CredentialEntry) -> list[Listed]:
        self.calls.append((upstream.name, credential.secret(), ""))
        if isinstance(self.listed, Unanswered):
            raise self.listed
        return self.listed


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    played = Played()
    monkeypatch.setattr(outside, "_outside", played)
    _tests.clear()
    yield played
    _tests.clear()


def page(upstream: Upstream, name: str) -> str:
    return f"/admin/keys/upstream/{upstream.pk}/{name}/"


def test_many_keys_are_pasted_at_once(client_of, alice: User, upstream: Upstream) -> None:
    answer = client_of(alice).post(page(upstream, "paste"), {"label": "batch", "secrets": PASTED})

    shown = answer.content.decode()
    stored = Credential.objects.order_by("pk")
    assert [row.label for row in stored] == [f"batch-{number}" for number in range(1, 7)]
    assert [unseal_secret(row, key_ring()) for row in stored] == [
        "sk-canary-one-0001",
        "sk-canary-two-0002",
        "sk-canary-three-0003",
        "sk-canary-four-0004",
        "sk-canary-five-0005",
        "YWJjZGVmZ2hpag==",
    ]
    assert "1 known already" in shown
    assert "Line 9: a secret has no spaces" in shown
    assert "Line 12:" in shown
    assert "canary" not in shown
    assert "not a key" not in shown
    assert "canary" not in repr(list(LogEntry.objects.values()))


def test_pasting_again_adds_nothing(client_of, alice: User, upstream: Upstream) -> None:
    browser = client_of(alice)
    for _ in range(2):
        answer = browser.post(page(upstream, "paste"), {"label": "x", "secrets": "sk-one-two\nsk-three-four"})

    assert "2 known already" in answer.content.decode()
    assert Credential.objects.count() == 2


def test_credentials_that_lost_their_secret_get_one_first(client_of, alice: User, upstream: Upstream) -> None:
    add_secrets(upstream, ["sk-old-secret"], label="kept")
    Upstream.objects.update(base_url="https://elsewhere.example/v1")

    client_of(alice).post(page(upstream, "paste"), {"label": "x", "secrets": "sk-new-secret\nsk-more-secret"})

    assert [row.label for row in Credential.objects.order_by("pk")] == ["kept-1", "x-1"]


def test_an_empty_paste_says_so(client_of, alice: User, upstream: Upstream) -> None:
    answer = client_of(alice).post(page(upstream, "paste"), {"label": "x", "secrets": ""})

    assert "This field is required" in answer.content.decode()


def test_a_credential_is_tested_by_itself(client_of, alice: User, upstream: Upstream, played: Played) -> None:
    credential = add_secrets(upstream, ["sk-canary-one"]).credentials[0]
    url = f"/admin/keys/credential/{credential.pk}/test/"
    browser = client_of(alice)

    assert played.calls == []
    assert browser.get(url).status_code == 200
    assert played.calls == []  # looking is not testing

    shown = browser.post(url, {"model": "small"}).content.decode()
    assert played.calls == [("acme", "sk-canary-one", "small")]
    assert "It failed: status 401 after 42 ms." in shown
    assert "&lt;b&gt;Invalid" in shown
    assert LogEntry.objects.filter(change_message__contains="Tested with small").exists()


def test_an_undecryptable_credential_is_not_tested(client_of, alice: User, upstream: Upstream, played: Played) -> None:
    credential = add_secrets(upstream, ["sk-canary-one"]).credentials[0]
    Credential.objects.update(sealed_secret="v1.gone.AAAA")

    shown = client_of(alice).post(f"/admin/keys/credential/{credential.pk}/test/", {"model": "m"}).content.decode()

    assert played.calls == []
    assert "undecryptable" in shown


def test_tests_are_rationed(client_of, alice: User, upstream: Upstream, played: Played) -> None:
    credential = add_secrets(upstream, ["sk-canary-one"]).credentials[0]
    browser = client_of(alice)
    for _ in range(TESTS_A_MINUTE + 3):
        answer = browser.post(f"/admin/keys/credential/{credential.pk}/test/", {"model": "m"})

    assert len(played.calls) == TESTS_A_MINUTE
    assert "a test too many" in answer.content.decode()


def test_models_are_synced_and_what_somebody_entered_stays(
    client_of, alice: User, upstream: Upstream, played: Played
) -> None:
    add_secrets(upstream, ["sk-canary-one"])
    UpstreamModel.objects.create(upstream=upstream, name="known", context_window=1000)
    UpstreamModel.objects.create(upstream=upstream, name="gone")
    played.listed = [
        Listed(name="known", context_window=9999, max_output_tokens=512),
        Listed(name="new", context_window=8192),
    ]

    answer = client_of(alice).post(page(upstream, "sync"), follow=True)

    assert "1 added, 1 completed, no longer listed: gone" in answer.content.decode()
    stored = UpstreamModel.objects.order_by("name").values_list("name", "context_window", "max_output_tokens")
    assert list(stored) == [("gone", None, None), ("known", 1000, 512), ("new", 8192, None)]


def test_an_upstream_that_gives_no_list_is_named(client_of, alice: User, upstream: Upstream, played: Played) -> None:
    browser = client_of(alice)
    assert "no credential to ask with" in browser.post(page(upstream, "sync"), follow=True).content.decode()

    add_secrets(upstream, ["sk-canary-one"])
    played.listed = Unanswered("status 500: <b>")
    assert "status 500: &lt;b&gt;" in browser.post(page(upstream, "sync"), follow=True).content.decode()
    assert not UpstreamModel.objects.exists()


@pytest.mark.parametrize("method", ["get", "post"])
def test_charlie_reaches_none_of_it(client_of, charlie: User, upstream: Upstream, played: Played, method: str) -> None:
    credential = add_secrets(upstream, ["sk-canary-one"]).credentials[0]
    browser = client_of(charlie)

    for url in (page(upstream, "paste"), page(upstream, "sync"), f"/admin/keys/credential/{credential.pk}/test/"):
        answer = getattr(browser, method)(url, {"label": "x", "secrets": "sk-other-one", "model": "m"})
        assert answer.status_code == 403, url

    assert played.calls == []
    assert Credential.objects.count() == 1


def test_the_ways_there_are_on_the_pages(client_of, alice: User, upstream: Upstream) -> None:
    credential = add_secrets(upstream, ["sk-canary-one"]).credentials[0]
    browser = client_of(alice)

    shown = browser.get(reverse("admin:keys_upstream_change", args=[upstream.pk])).content.decode()
    assert page(upstream, "paste") in shown
    assert page(upstream, "sync") in shown
    shown = browser.get(reverse("admin:keys_credential_change", args=[credential.pk])).content.decode()
    assert f"/admin/keys/credential/{credential.pk}/test/" in shown


def test_a_setup_is_exported_and_imported_by_hand(client_of, alice: User, upstream: Upstream) -> None:
    add_secrets(upstream, ["sk-canary-one"])
    browser = client_of(alice)

    exported = browser.get("/admin/keys/upstream/export/").content.decode()
    assert "name: acme" in exported
    assert "canary" not in exported

    changed = exported.replace("label: key-1", "label: spare")
    answer = browser.post("/admin/keys/upstream/import/", {"text": changed, "passphrase": ""}, follow=True)
    assert "credentials: 1 added, 0 set" in answer.content.decode()
    assert Credential.objects.filter(label="spare", sealed_secret="").exists()

    answer = browser.post("/admin/keys/upstream/import/", {"text": "nonsense: <b>", "passphrase": "hush hush hush"})
    assert "Nothing was imported. nonsense: Extra inputs" in answer.content.decode()
    assert "hush" not in answer.content.decode()


def test_charlie_neither_exports_nor_imports(client_of, charlie: User, upstream: Upstream) -> None:
    charlie.user_permissions.add(Permission.objects.get(codename="view_upstream"))
    browser = client_of(charlie)

    assert browser.get("/admin/keys/upstream/export/").status_code == 403
    assert browser.post("/admin/keys/upstream/import/", {"text": "bridge: 1"}).status_code == 403
