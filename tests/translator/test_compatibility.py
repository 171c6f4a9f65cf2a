"""`docs/compatibility.md` speaks of every field that the newest SDK knows, and of tests that exist."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from anthropic.types.shared import ErrorType as SdkErrorType

from tests.processes import ROOT
from tests.translator.sdk_types import ROOTS, Field, fields_of
from translator.core.errors import ErrorType
from translator.core.events import StopReason

PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<objects>`[^|]*) \| (?P<fields>[^|]*) \| (?P<does>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE
)
CODE = re.compile(r"`([^`]+)`")
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
#: Stands for each field of an object, and for all that is in a field.
ALL = "*"


def sections() -> Mapping[str, str]:
    """The parts of the page by their headings."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented(section: str) -> set[Field]:
    rows = ROW.finditer(sections()[section])
    return {
        (owner, field)
        for row in rows
        for owner in CODE.findall(row["objects"])
        for field in CODE.findall(row["fields"])
    }


@cache
def known_tests() -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in Path(ROOT / "tests").rglob("test_*.py"):
        found.setdefault(path.name, set()).update(re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize("section", ROOTS)
def test_no_field_of_the_sdk_is_missing(section: str) -> None:
    known = documented(section)

    fields = fields_of(
        section, is_covered=lambda field: (field[0], ALL) in known or (*field[:1], f"{field[1]}.{ALL}") in known
    )

    named = {(owner, field.removesuffix(f".{ALL}")) for owner, field in known}
    missing = {(owner, field) for owner, field in fields if (owner, field) not in named and (owner, ALL) not in named}
    assert sorted(missing) == []


@pytest.mark.parametrize("section", ROOTS)
def test_no_field_is_made_up(section: str) -> None:
    """What the page names and the SDK doesn't is said to be of older clients or of the gateway."""
    fields = fields_of(section, is_covered=lambda _: False)
    owners = {owner for owner, _ in fields}

    extra = {
        (owner, field)
        for owner, field in documented(section)
        if field != ALL and owner in owners and (owner, field.removesuffix(f".{ALL}")) not in fields
    }
    assert extra == OF_OLDER_CLIENTS.get(section, set())


OF_OLDER_CLIENTS: Mapping[str, set[Field]] = {
    "Requests": {("request", name) for name in ("temperature", "top_p", "top_k", "output_format")},
    "Models": {("model", name) for name in ("object", "owned_by")},
}


def test_every_test_that_is_named_exists() -> None:
    named = set(TEST.findall(PAGE))

    assert len(named) > 50
    assert sorted((file, test) for file, test in named if test not in known_tests().get(file, set())) == []


def test_each_row_names_a_test() -> None:
    rows = [row for text in sections().values() for row in ROW.finditer(text)]

    assert [row["objects"] for row in rows if not TEST.search(row["tests"])] == []


@pytest.mark.parametrize(
    "names", [get_args(SdkErrorType), list(ErrorType), list(StopReason)], ids=["sdk", "ours", "stops"]
)
def test_errors_and_stop_reasons_are_there(names: list[str]) -> None:
    assert [name for name in names if f"`{name}`" not in PAGE] == []
