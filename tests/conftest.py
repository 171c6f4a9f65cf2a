"""Fixtures that more than one folder of tests uses."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.gateway import gateway, make_gateway, make_lasting_gateway, migrated_template, shared
from tests.redis import redis_server, redis_url
from tests.upstream import upstream, upstream_process

__all__ = [
    "gateway",
    "make_gateway",
    "make_lasting_gateway",
    "migrated_template",
    "redis_server",
    "redis_url",
    "shared",
    "upstream",
    "upstream_process",
]

#: Files with long tests begin first and those with short ones last, so that no process is left with a long one at the end.
EARLY = ("browser/test_all_pages.py", "e2e/", "browser/", "usage/", "members/", "keys/")
TESTS = Path(__file__).parent

# How long an example takes is the machine's affair, and each run gets the same ones: who breaks a rule shall be the one
# whose run fails. Others are looked for by hand, with `--hypothesis-profile searching`.
settings.register_profile("searching", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("searching"), derandomize=True)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Keep the database: it goes with its server, and dropping it fails while any thread still holds a connection."""
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_lateness)


def _lateness(item: pytest.Item) -> int:
    path = item.path.relative_to(TESTS).as_posix()
    return next((number for number, start in enumerate(EARLY) if path.startswith(start)), len(EARLY))
