"""Rules that hold for the whole repository."""

import re
import tomllib
from pathlib import Path

import pytest

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


def test_the_image_gets_the_pinned_versions():
    with (ROOT / "pyproject.toml").open("rb") as file:
        pins = tomllib.load(file)["tool"]["uv"]["constraint-dependencies"]
    locked = re.findall(r"^[^\s#-].*?==[^\s;]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)

    assert locked
    assert set(locked) <= {pin.partition(";")[0].strip() for pin in pins}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_sitting(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
