"""The cast: Alice owns the team, Bob is a member, Charlie must see nothing. And upstreams to play with."""

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

from bridgeproject.database import conninfo
from keys.models import Upstream
from tests.upstream import ScriptedUpstream, forgetful


@pytest.fixture
def alice(db) -> User:
    return User.objects.create_superuser("alice", password="alice's long password")


@pytest.fixture
def bob(db) -> User:
    user = User.objects.create_user("bob", password="bob's long password")
    user.groups.add(Group.objects.create(name="builders"))
    return user


@pytest.fixture
def charlie(db) -> User:
    """Staff, and no rights at all."""
    return User.objects.create_user("charlie", password="charlie's long password", is_staff=True)


@pytest.fixture
def client_of():
    def log_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def upstream(db) -> Upstream:
    return Upstream.objects.create(name="acme", base_url="https://api.acme.example/v1")


@pytest.fixture
def dsn(transactional_db) -> str:
    """How to reach the tests' database from a connection of one's own."""
    return conninfo(django_settings.DATABASES["default"] | {"NAME": connection.settings_dict["NAME"]})


@pytest.fixture
def scripted(upstream_process: ScriptedUpstream) -> ScriptedUpstream:
    """The scripted upstream as every test gets it; `upstream` is a row here."""
    return forgetful(upstream_process)
