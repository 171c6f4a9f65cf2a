"""No file of the repository holds a secret: a client token, a private key, or a provider's key."""

import re
import subprocess
from pathlib import Path

import pytest

from keys.tokens import FORM, is_well_formed, new_token

ROOT = Path(__file__).resolve().parent.parent.parent
#: Forms that no placeholder of ours has: providers' keys at their full length.
OTHERS = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
    r"|\bsk-ant-[a-z]+\d\d-[\w-]{80,}"
    r"|\bsk-(?:proj|svcacct|admin)-[\w-]{60,}"
    r"|\bsk-or-v1-[0-9a-f]{64}"
    r"|\bgsk_[0-9A-Za-z]{50,}"
    r"|\bnvapi-[\w-]{60,}"
    r"|\bAIza[\w-]{35}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[0-9A-Za-z]{36}"
)


def secrets_in(text: str) -> list[str]:
    """Find what is no placeholder: a token counts when its checksum is right."""
    tokens = [token for token in FORM.findall(text) if is_well_formed(token)]
    return tokens + OTHERS.findall(text)


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_file_holds_a_secret() -> None:
    files = [file for file in tracked_files() if file.is_file()]
    assert len(files) > 500

    found = {str(file.relative_to(ROOT)): secrets_in(file.read_text("utf-8", "replace")) for file in files}

    assert {name: len(secrets) for name, secrets in found.items() if secrets} == {}


@pytest.mark.parametrize(
    "secret",
    [
        new_token(),
        "-----BEGIN " + "RSA PRIVATE KEY-----",
        "-----BEGIN " + "PRIVATE KEY-----",
        "sk-ant-api03-" + "Ab-9_" * 18,
        "sk-or-v1-" + "0a" * 32,
        "ghp_" + "a1B" * 12,
    ],
    ids=["token", "RSA key", "private key", "Anthropic", "OpenRouter", "GitHub"],
)
def test_a_planted_one_is_found(secret: str) -> None:
    assert secrets_in(f'key = "{secret}"\n') == [secret]


def test_the_form_of_tokens_is_documented() -> None:
    assert f"`{FORM.pattern}`" in (ROOT / "docs/people.md").read_text(encoding="utf-8")
