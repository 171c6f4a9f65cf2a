"""Fixtures that more than one folder of tests uses."""

import pytest
from hypothesis import settings

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

# How long an example takes is the machine's affair.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Keep the database: it goes with its server, and dropping it fails while any thread still holds a connection."""
    return True
