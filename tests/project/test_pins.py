"""What gets into images and environments: hashed pins, the same everywhere, and nothing that runs by itself."""

import re
import site
import tomllib
from hashlib import sha256
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
REQUIREMENT = re.compile(
    r"(?P<pin>[a-z0-9][a-z0-9-]*==[0-9][\w.!+]*)(?: ; [^\n-][^\n]*?)?(?: --hash=sha256:[0-9a-f]{64})+"
)
#: Tools that an environment may have of its own.
TOOLS = {"pip", "setuptools", "wheel"}
#: Python runs the lines of `.pth` files at each start. Those that we know, by what is in them; a new version of a
#: package may bring another text: read it, then write its digest here.
KNOWN_HOOKS = {
    # coverage: does nothing unless COVERAGE_PROCESS_START or COVERAGE_PROCESS_CONFIG is set
    "a1_coverage.pth": "ef2ed06d19867ec669c09a804060666a9cd5e383af0a9d11aa2de79b77d448e8",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins_of_project() -> set[str]:
    return {pin.partition(";")[0].strip() for pin in PYPROJECT["tool"]["uv"]["constraint-dependencies"]}


def lines_of(lock: str) -> list[str]:
    return lock.replace(" \\\n   ", "").splitlines()


def unhashed(lock: str) -> list[str]:
    """Give the requirements that aren't one exact version with hashes, and whatever else stands in the file."""
    return [line for line in lines_of(lock) if not REQUIREMENT.fullmatch(line)]


def unknown_hooks(folder: Path) -> list[str]:
    """Name what Python would run at its start out of a folder of packages, and we don't know."""
    hooks = [path for path in folder.iterdir() if path.suffix in (".pth", ".start")]
    unknown = [path.name for path in hooks if sha256(path.read_bytes()).hexdigest() != KNOWN_HOOKS.get(path.name)]
    modules = [path.name for path in folder.iterdir() if path.stem in ("sitecustomize", "usercustomize")]
    return sorted(unknown + modules)


def test_each_requirement_has_its_hashes() -> None:
    assert unhashed(LOCK) == []


@pytest.mark.parametrize(
    "line",
    [
        "django==6.1.3",
        "django>=6.1.3 --hash=sha256:" + "0" * 64,
        "django==6.1.3 --hash=md5:" + "0" * 32,
        "django @ https://example.org/django.whl --hash=sha256:" + "0" * 64,
        "--index-url https://example.org/simple",
    ],
)
def test_a_requirement_without_a_hash_or_from_elsewhere_is_found(line: str) -> None:
    assert unhashed(f"{LOCK}{line}\n") == [line]


def test_the_image_gets_the_pinned_versions() -> None:
    locked = {line.split()[0] for line in lines_of(LOCK)}
    project = PYPROJECT["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {normal(re.split(r"[\[~=<>!; ]", one, maxsplit=1)[0]) for one in wanted}

    assert locked <= pins_of_project()
    assert names <= {pin.partition("==")[0] for pin in locked}


def test_what_is_installed_is_pinned() -> None:
    installed = {f"{normal(one.name)}=={one.version}" for one in distributions() if normal(one.name) not in TOOLS}

    assert installed - pins_of_project() == set()


def test_nothing_that_is_installed_runs_at_pythons_start() -> None:
    for folder in map(Path, site.getsitepackages()):
        assert unknown_hooks(folder) == []


@pytest.mark.parametrize("name", ["fast_init.pth", "a1_coverage.pth", "sitecustomize.py", "a.start"])
def test_a_hook_that_nobody_knows_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("import os; os.system('true')\n")
    (tmp_path / "package.py").touch()

    assert unknown_hooks(tmp_path) == [name]
