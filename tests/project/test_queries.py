"""Each page asks the database a few questions, however much there is to show."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from bridgeproject.navigation import SECTIONS
from keys.models import ClientToken, Credential, Route, Upstream, UpstreamModel
from members.models import AuditEntry
from tests.made_up_team import make_up
from usage.models import Budget, Price, UsageRecord

pytestmark = pytest.mark.django_db

QUERIES_MAX = 25
#: Pages that lead elsewhere or belong to nobody.
OBJECTS = (Upstream, Credential, UpstreamModel, Route, ClientToken, User, Group, AuditEntry, Budget, Price, UsageRecord)


def pages_of(user: User) -> Iterator[str]:
    """Give every page of the side bar, one page of each kind of object, and the members' pages."""
    for pages in SECTIONS.values():
        yield from (reverse(name) for _, _, name, _ in pages)
    for model in OBJECTS:
        row = model._default_manager.order_by("-pk").first()
        assert row is not None, model
        yield reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
    record = UsageRecord.objects.exclude(session_id="").filter(user_id=user.pk).latest("id")
    yield reverse("usage_pages:request", args=[record.request_id])
    yield f"{reverse('usage_pages:report')}?by=model&then=user"
    yield f"{reverse('admin:usage_usagerecord_changelist')}?q={record.request_id}"
    yield reverse("members:session", args=[record.session_id])
    yield reverse("members:token-new")
    yield reverse("members:token-try", args=[ClientToken.objects.filter(user=user).latest("pk").pk])
    yield reverse("members:second-factor")
    yield reverse("members:password")


def test_no_page_asks_more_than_a_few_questions(client: Client, django_assert_max_num_queries) -> None:
    cast = make_up("https://api.acme.example/v1", "correct horse", records=3000)
    mia = cast.people[0]
    User.objects.filter(pk=mia.pk).update(is_superuser=True, is_staff=True)
    client.force_login(mia)
    client.get("/admin/")  # fills what is kept in memory

    for page in pages_of(mia):
        with django_assert_max_num_queries(QUERIES_MAX, info=page):
            assert client.get(page).status_code == 200, page
