"""Rules that hold for the whole repository."""

import re
from pathlib import Path

import pytest

from translator.core.model_checks.checks import CHECKS, Need

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = [
    path
    for app in ("bridgeproject", "translator", "members", "keys", "usage")
    for path in (ROOT / app).rglob("*.py")
    if "migrations" not in path.parts
]


def test_every_setting_is_documented():
    used = set()
    for path in SOURCES:
        found = re.findall(r"env_\w+\(\"(BRIDGE_\w+)\"", path.read_text(encoding="utf-8"))
        used |= {name.removesuffix("_FILE") for name in found}
    documented = set(re.findall(r"`(BRIDGE_\w+)`", (ROOT / "docs/configuration.md").read_text(encoding="utf-8")))

    assert used <= documented


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_sitting(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_every_check_of_a_model_is_documented():
    page = (ROOT / "docs" / "model-check.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|", page, re.MULTILINE))
    words = {Need.NEEDED: "needs it", Need.USED: "uses it", Need.OTHER: ""}

    assert {name: need.strip() for name, need in rows.items()} == {check.name: words[check.need] for check in CHECKS}
    assert f"makes {len(CHECKS)} small" in page
