from time import monotonic
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.contrib.messages.storage.cookie import CookieStorage
from django.db.models import FloatField, Func, QuerySet, Value
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from keys.admin.routes import RouteAdmin
from keys.models import Route
from keys.searching import STOPPED

pytestmark = pytest.mark.django_db
#: What may be typed into a search, and has to be harmless.
TERMS = ("%", "_", "%%%_%", "\\", "'", '"', "a\x00b", "x" * 300, "\u202e", "<b>", "a b c d e f g h")


class SleepyRoutes(RouteAdmin):
    """A list whose search takes five seconds for each row."""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        slow = Func(Value(60), function="pg_sleep", output_field=FloatField())
        return queryset.annotate(slept=slow).filter(slept__isnull=False), False


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


def listed(root: User, address: str) -> tuple[HttpRequest, HttpResponse]:
    request = RequestFactory().get(address)
    request.user = root
    request._messages = CookieStorage(request)  # type: ignore[attr-defined]
    return request, SleepyRoutes(Route, admin.site).changelist_view(request)


def test_a_search_that_takes_too_long_is_stopped_and_says_so(root: User) -> None:
    Route.objects.create(alias="claude-*")
    began = monotonic()

    request, answer = listed(root, "/admin/keys/route/?q=x&enabled__exact=1")

    assert monotonic() - began < 30
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/keys/route/?enabled__exact=1")
    assert [str(message) for message in get_messages(request)] == [STOPPED]


def test_without_a_search_there_is_nothing_to_stop(root: User) -> None:
    _, answer = listed(root, "/admin/keys/route/")

    assert answer.status_code == 200


@pytest.mark.parametrize("term", TERMS)
def test_every_list_takes_any_term(client: Client, root: User, term: str) -> None:
    client.force_login(root)
    searched = [model for model, found in admin.site._registry.items() if found.search_fields]
    assert len(searched) >= 11

    for model in searched:
        address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        assert client.get(address, {"q": term}).status_code == 200, address
