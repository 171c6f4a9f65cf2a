from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

from keys.credentials import add_secrets, unseal_secret
from keys.models import Credential, Route, Upstream
from keys.ring import key_ring
from keys.setup_file import BadSetup, Vault
from keys.transfer import export_setup, import_setup

pytestmark = pytest.mark.django_db

PASSPHRASE = "correct horse battery staple"


def fill() -> None:
    acme = Upstream.objects.create(
        name="acme", base_url="https://api.acme.example/v1", profile_overrides={"stop_max": 2}
    )
    other = Upstream.objects.create(
        name="other", base_url="https://other.example/v1", dialect="anthropic", enabled=False
    )
    add_secrets(acme, ["sk-canary-one-1111", "sk-canary-two-2222"])
    Credential.objects.filter(label="key-2").update(rpm=60, priority=2)
    acme.models.create(name="big", context_window=200_000, reasoning=True)
    route = Route.objects.create(alias="claude-*")
    route.targets.create(upstream=acme, upstream_model="big")
    route.targets.create(upstream=other, position=1, weight=3)


def empty() -> None:
    Route.objects.all().delete()
    Upstream.objects.all().delete()


def test_what_was_exported_is_imported_the_same() -> None:
    fill()
    text = export_setup()
    empty()

    assert import_setup(text).added == {"upstreams": 2, "models": 1, "credentials": 2, "routes": 1}
    assert export_setup() == text


def test_an_export_holds_no_secret() -> None:
    fill()

    text = export_setup()

    assert "canary" not in text
    assert "secret" not in text
    assert "1111" not in text
    assert Credential.objects.first().sealed_secret not in text


def test_secrets_go_along_only_sealed_under_a_passphrase() -> None:
    fill()
    text = export_setup(PASSPHRASE)
    assert "canary" not in text
    empty()

    import_setup(text, PASSPHRASE)

    opened = [unseal_secret(row, key_ring()) for row in Credential.objects.order_by("label")]
    assert opened == ["sk-canary-one-1111", "sk-canary-two-2222"]


@pytest.mark.parametrize("passphrase", ["", "short", "another long passphrase"])
def test_a_wrong_passphrase_imports_nothing(passphrase: str) -> None:
    fill()
    text = export_setup(PASSPHRASE)
    empty()

    with pytest.raises(BadSetup, match="passphrase"):
        import_setup(text, passphrase)

    assert not Upstream.objects.exists()


def test_a_secret_moved_to_another_credential_does_not_open() -> None:
    fill()
    plain = yaml.safe_load(export_setup(PASSPHRASE))
    one, two = plain["upstreams"][0]["credentials"]
    one["secret"], two["secret"] = two["secret"], one["secret"]

    with pytest.raises(BadSetup, match="doesn't open"):
        import_setup(yaml.safe_dump(plain), PASSPHRASE)


def test_what_is_there_is_changed_and_the_rest_stays() -> None:
    fill()
    text = """
upstreams:
- {name: acme, base_url: https://api.acme.example/v1, profile: deepseek}
routes:
- {alias: claude-*, targets: [{upstream: acme, model: small}]}
"""

    assert str(import_setup(text)) == "upstreams: 0 added, 1 set; routes: 0 added, 1 set"

    assert Upstream.objects.get(name="acme").profile == "deepseek"
    assert Upstream.objects.filter(name="other").exists()
    assert unseal_secret(Credential.objects.get(label="key-1"), key_ring()) == "sk-canary-one-1111"
    assert [str(target) for target in Route.objects.get().targets.all()] == ["acme/small"]


BILLION_LAUGHS = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file"),
        ("[]", "the file"),
        ("{", "not YAML"),
        ("bridge: 2", "bridge"),
        ("upstream: []", "upstream: Extra inputs"),
        ("upstreams: [{name: a}]", r"upstreams\.0\.base_url"),
        ("upstreams: [{name: a, base_url: http://a.example}]", "upstream a: .*https"),
        ("upstreams: [{name: a, base_url: https://127.0.0.1}]", "upstream a: .*private"),
        ("upstreams: [{name: a b, base_url: https://a.example}]", "upstream a b"),
        ("upstreams: [{name: a, base_url: https://a.example, budget: 3}]", "budget: Extra inputs"),
        ("upstreams: [{name: a, base_url: https://a.example, credentials: [{label: k, rpm: 0}]}]", "rpm"),
        ("upstreams: [{name: a, base_url: https://a.example, credentials: [{label: k, secret: x}]}]", "no salt"),
        ("routes: [{alias: x, targets: []}]", "targets"),
        ("routes: [{alias: x, targets: [{upstream: nobody}]}]", "route x: there is no upstream nobody"),
        ("routes: [{alias: 'a*b', targets: [{upstream: acme}]}]", "route a.b: An alias is"),
        ("!!python/object/apply:os.system [true]", "not YAML"),
        (BILLION_LAUGHS, "aliases are not taken"),
        ("x" * (5 * 1024 * 1024), "too large"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_whole(text: str, says: str) -> None:
    with pytest.raises(BadSetup, match=says):
        import_setup(text)

    assert not Upstream.objects.exists()
    assert not Route.objects.exists()


def test_an_error_does_not_repeat_a_secret() -> None:
    text = "upstreams: [{name: a, base_url: https://a.example, credentials: [{label: k, key: sk-canary}]}]"

    with pytest.raises(BadSetup) as refused:
        import_setup(text)

    assert "canary" not in str(refused.value)


def test_a_vault_opens_only_with_its_salt() -> None:
    sealed = Vault(PASSPHRASE).seal("sk-canary", "acme", "key-1")

    with pytest.raises(BadSetup, match="doesn't open"):
        Vault(PASSPHRASE).open(sealed, "acme", "key-1")


def test_the_commands_carry_a_setup_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SETUP_PASSPHRASE", PASSPHRASE)
    fill()
    out = StringIO()
    call_command("export_setup", "--passphrase-env", "SETUP_PASSPHRASE", stdout=out)
    file = tmp_path / "setup.yaml"
    file.write_text(out.getvalue())
    empty()

    out = StringIO()
    call_command("import_setup", str(file), "--passphrase-env", "SETUP_PASSPHRASE", stdout=out)

    assert out.getvalue().startswith("Imported: upstreams: 2 added, 0 set;")
    with pytest.raises(CommandError, match="passphrase"):
        call_command("import_setup", str(file))
    with pytest.raises(CommandError, match="No such file"):
        call_command("import_setup", str(tmp_path / "none.yaml"))
