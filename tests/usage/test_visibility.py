"""Alice leads team red, Bob is a member of it, Charlie is of team blue, Dora sees all."""

from uuid import uuid4

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.utils import timezone

from usage.histogram import BUCKETS
from usage.models import UsageHour
from usage.visibility import Scope, may_open_pages, scope_of, visible_to, within

pytestmark = pytest.mark.django_db


def a_person(name: str, team: Group | None, *codenames: str, is_staff: bool = True) -> User:
    person = User.objects.create_user(name, is_staff=is_staff)
    if team is not None:
        person.groups.add(team)
    person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return User.objects.get(pk=person.pk)


def an_hour(user: User, team: Group | None) -> None:
    UsageHour.objects.create(
        key=uuid4(),
        hour=timezone.now().replace(minute=0, second=0, microsecond=0),
        user_id=user.pk,
        user_name=user.username,
        team_id=team.pk if team else None,
        requests=1,
        ttft_histogram=[0] * BUCKETS,
        duration_histogram=[0] * BUCKETS,
    )


def seen_by(user: User) -> set[str]:
    return {sums.user_name for sums in visible_to(user, UsageHour.objects.all())}


def test_each_sees_what_the_rights_say() -> None:
    red, blue = Group.objects.create(name="red"), Group.objects.create(name="blue")
    alice = a_person("alice", red, "view_usagerecord")
    bob = a_person("bob", red, is_staff=False)
    charlie = a_person("charlie", blue, "view_usagerecord")
    dora = a_person("dora", None, "view_usagerecord", "view_all_usage")
    erin = a_person("erin", None, "view_usagerecord")
    for user, team in ((alice, red), (bob, red), (charlie, blue), (dora, None), (erin, None)):
        an_hour(user, team)

    assert seen_by(alice) == {"alice", "bob"}
    assert seen_by(bob) == {"bob"}
    assert seen_by(charlie) == {"charlie"}
    assert seen_by(dora) == {"alice", "bob", "charlie", "dora", "erin"}
    assert seen_by(erin) == {"erin"}
    assert [may_open_pages(user) for user in (alice, bob, charlie, dora)] == [True, False, True, True]


def test_who_was_switched_off_sees_nothing() -> None:
    alice = a_person("alice", None, "view_usagerecord", "view_all_usage")
    an_hour(alice, None)
    alice.is_active = False

    assert not seen_by(alice)
    assert not may_open_pages(alice)
    assert scope_of(AnonymousUser()) == Scope()


@pytest.mark.parametrize("scope", [Scope(is_everything=True), Scope(team_ids=(1, 2)), Scope(user_id=7), Scope()])
def test_sql_and_orm_agree_on_a_scope(scope: Scope) -> None:
    red = Group(pk=1)
    for pk, team in ((7, None), (8, red)):
        an_hour(User(pk=pk, username=f"user{pk}"), team)

    by_sql = {sums.pk for sums in UsageHour.objects.extra(where=[scope.condition()])}  # noqa: S610  (our own SQL)

    assert {sums.pk for sums in within(scope, UsageHour.objects.all())} == by_sql
