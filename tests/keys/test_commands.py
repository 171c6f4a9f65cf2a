from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from keys.credentials import unseal_secret
from keys.models import ClientToken, Credential, Route, Upstream
from keys.ring import key_ring
from keys.tokens import digest

pytestmark = pytest.mark.django_db

URL = "https://api.acme.example/v1"


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_add_upstream_stores_it_with_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "sk-from-environment\n")

    line = run(
        "add_upstream", "acme", URL + "/", "--key", "sk-one-canary", "--key-env", "ACME_KEY", "--profile", "vllm"
    )

    assert line == f"Added upstream acme at {URL} with 2 credentials\n"
    assert Upstream.objects.get().profile == "vllm"
    opened = {unseal_secret(credential, key_ring()) for credential in Credential.objects.all()}
    assert opened == {"sk-one-canary", "sk-from-environment"}


def test_add_upstream_again_adds_new_keys_only() -> None:
    run("add_upstream", "acme", URL, "--key", "sk-one-canary")

    assert (
        run("add_upstream", "acme", URL, "--key", "sk-one-canary", "sk-two-canary") == "Added to acme: 1 credential\n"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["acme", URL], "exists already"),
        (["acme", URL, "--key", "sk-one-canary"], "has these credentials already"),
        (["acme", "https://other.example/v1", "--key", "sk-two"], "another base URL"),
        (["other", "http://api.acme.example/v1"], "https://"),
        (["other", "https://127.0.0.1/v1"], "private or reserved"),
        (["bad name", URL], "name:"),
        (["other", URL, "--key", "sk with spaces"], "no spaces"),
        (["other", URL, "--key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not set"),
        (["other", URL, "--dialect", "klingon"], "klingon"),
    ],
)
def test_add_upstream_refuses_and_leaves_nothing_behind(words: list[str], says: str) -> None:
    run("add_upstream", "acme", URL, "--key", "sk-one-canary")

    with pytest.raises(CommandError, match=says) as refused:
        run("add_upstream", *words)

    assert "canary" not in str(refused.value)
    assert Upstream.objects.count() == 1
    assert Credential.objects.count() == 1


def test_add_route_serves_then_replaces_then_appends() -> None:
    run("add_upstream", "acme", URL)
    run("add_upstream", "other", "https://other.example/v1")

    assert run("add_route", "claude-*", "acme") == "Added claude-* to acme/(same name)\n"
    assert run("add_route", "claude-*", "acme", "big") == "Changed claude-*: acme/big instead of acme/(same name)\n"
    assert run("add_route", "claude-*", "other", "small") == "Added to claude-* a fallback: other/small\n"

    targets = Route.objects.get().targets.values_list("upstream__name", "upstream_model", "position")
    assert list(targets) == [("acme", "big", 0), ("other", "small", 1)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gpt", "nobody"], "no upstream nobody .there are: acme"),
        (["claude-*", "acme", "big"], "already exists"),
        (["cl*ude", "acme"], "a pattern such as claude"),
        (["", "acme"], "alias"),
        (["two words", "acme"], "a pattern such as claude"),
    ],
)
def test_add_route_refuses_and_leaves_nothing_behind(words: list[str], says: str) -> None:
    run("add_upstream", "acme", URL)
    run("add_route", "claude-*", "acme", "big")

    with pytest.raises(CommandError, match=says):
        run("add_route", *words)

    assert Route.objects.count() == 1


def test_issue_token_creates_the_user_and_prints_the_token_alone() -> None:
    plain = run("issue_token", "dora", "--expires", "12h").strip()

    row = ClientToken.objects.get()
    assert row.digest == digest(plain)
    assert row.user.username == "dora"
    assert not row.user.has_usable_password()
    assert row.expires_at - timezone.now() <= timedelta(hours=12)


def test_issue_token_gives_a_user_a_second_token() -> None:
    first, second = run("issue_token", "dora"), run("issue_token", "dora", "--name", "ci")

    assert first != second
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["dora", "--expires", "90"], "30m, 12h"),
        (["dora", "--expires", "0d"], "30m, 12h"),
        (["dora", "--expires", "400d"], "365 days"),
        (["no spaces", "--expires", "1d"], "username"),
        (["gone"], "not active"),
    ],
)
def test_issue_token_refuses(words: list[str], says: str) -> None:
    User.objects.create_user("gone", is_active=False)

    with pytest.raises(CommandError, match=says):
        run("issue_token", *words)

    assert not ClientToken.objects.exists()
