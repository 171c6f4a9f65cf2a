"""The cast: Lea leads the builders, Bob is one of them, Rita is of another team, Sam supports, Ada is an admin."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from keys.models import Upstream
from keys.roles import Role, give_role, make_roles
from tests.usage.waiting import wait_for_a_whole_hour

PASSWORD = "a long password of 1843"


@pytest.fixture(autouse=True)
def _whole_hour() -> None:
    wait_for_a_whole_hour()


def make_user(name: str, team: str = "", role: Role | None = None, **more: object) -> User:
    user = User.objects.create_user(name, password=PASSWORD, **more)
    if team:
        user.groups.add(Group.objects.get_or_create(name=team)[0])
    if role:
        give_role(user, role)
    return user


@pytest.fixture
def roles(db) -> None:
    make_roles()


@pytest.fixture
def bob(roles) -> User:
    return make_user("bob", "builders")


@pytest.fixture
def lea(roles) -> User:
    return make_user("lea", "builders", Role.LEAD)


@pytest.fixture
def rita(roles) -> User:
    return make_user("rita", "riggers")


@pytest.fixture
def sam(roles) -> User:
    return make_user("sam", role=Role.SUPPORT)


@pytest.fixture
def ada(roles) -> User:
    return make_user("ada", role=Role.ADMIN)


@pytest.fixture
def root(roles) -> User:
    return User.objects.create_superuser("root", password=PASSWORD)


#: What browsers say that they take, in short.
BROWSER = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def client_of():
    def log_in(user: User | None) -> Client:
        client = Client(headers=BROWSER)
        if user is not None:
            client.force_login(user)
        return client

    return log_in


@pytest.fixture
def upstream(db) -> Upstream:
    return Upstream.objects.create(name="acme", base_url="https://api.acme.example/v1")
