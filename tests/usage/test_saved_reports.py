from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.usage.people import HOSTILE, a_lead, as_
from usage.models import SavedReport

pytestmark = pytest.mark.django_db

PAGE = "/admin/usage/reports/"
SAVED = f"{PAGE}saved/"


@pytest.fixture
def alice() -> User:
    return a_lead("alice", "red", 90101)


@pytest.fixture
def colleague(alice: User) -> User:
    user = a_lead("bob", "other red", 90103)
    user.groups.add(90101)
    return User.objects.get(pk=user.pk)


def save(
    client: Client, name: str = "errors", query: str = "by=error&then=model&state=timeout", **more: str
) -> SavedReport:
    assert client.post(SAVED, {"name": name, "query": query, **more}).status_code == 302
    return SavedReport.objects.get(name=name)


def shown(client: Client) -> list[str]:
    return [report.name for report in client.get(PAGE).context["saved"]]


def test_a_saved_report_leads_back_to_its_groups_and_filters(alice: User) -> None:
    saved = save(as_(alice))

    answer = as_(alice).get(f"{SAVED}{saved.pk}/")

    assert answer["location"] == f"{PAGE}?by=error&then=model&state=timeout"
    assert as_(alice).get(answer["location"]).context["groups"] == ("error", "model")


def test_days_up_to_today_move_along_and_others_stay(alice: User) -> None:
    today = timezone.now().date()
    week = save(as_(alice), "week", f"by=day&from={today - timedelta(days=6)}&to={today}")
    SavedReport.objects.filter(pk=week.pk).update(days=3)
    past = save(as_(alice), "past", "by=day&from=2026-01-01&to=2026-01-31")

    assert f"from={today - timedelta(days=2)}&to={today}" in as_(alice).get(f"{SAVED}{week.pk}/")["location"]
    assert "from=2026-01-01&to=2026-01-31" in as_(alice).get(f"{SAVED}{past.pk}/")["location"]


def test_a_name_is_given_once_the_second_time_replaces(alice: User) -> None:
    save(as_(alice))
    saved = save(as_(alice), query="by=user")

    assert saved.query == "by=user"


def test_a_report_is_seen_by_the_team_that_it_is_shared_with(alice: User, colleague: User) -> None:
    save(as_(alice), "mine")
    shared = save(as_(alice), "ours", team="90101")
    charlie = a_lead("charlie", "blue", 90102)

    assert shown(as_(alice)) == ["mine", "ours"]
    assert shown(as_(colleague)) == ["ours"]
    assert shown(as_(charlie)) == []
    assert as_(charlie).get(f"{SAVED}{shared.pk}/").status_code == 404
    assert as_(colleague).post(f"{SAVED}{shared.pk}/delete/").status_code == 403
    assert as_(alice).post(f"{SAVED}{shared.pk}/delete/").status_code == 302
    assert shown(as_(alice)) == ["mine"]


def test_a_report_is_shared_with_no_foreign_team(alice: User) -> None:
    a_lead("charlie", "blue", 90102)

    assert save(as_(alice), team="90102").team is None
    assert save(as_(alice), "other", team="9" * 30).team is None


@pytest.mark.parametrize(
    "query", ["by=secret&x=1", "next=https://example.com/", "by=day&user=1\x00", "&&=%", "by=" + "x" * 5000]
)
def test_what_is_no_word_of_a_report_is_not_kept(alice: User, query: str) -> None:
    saved = save(as_(alice), query=query)

    assert set(saved.query.split("&")) <= {"", "by=day", "user=1"}
    assert as_(alice).get(as_(alice).get(f"{SAVED}{saved.pk}/")["location"]).status_code == 200


def test_a_hostile_name_is_text(alice: User) -> None:
    save_answer = as_(alice).post(SAVED, {"name": HOSTILE, "query": ""})

    assert save_answer.status_code == 302
    assert "<img src=x" not in as_(alice).get(PAGE).content.decode()


def test_a_name_is_needed_and_staff_only_may_save(alice: User) -> None:
    as_(alice).post(SAVED, {"name": "  ", "query": ""})
    as_(User.objects.create_user("mallory", is_staff=True)).post(SAVED, {"name": "x", "query": ""})
    as_(User.objects.create_user("bob")).post(SAVED, {"name": "x", "query": ""})

    assert not SavedReport.objects.exists()
    assert as_(alice).get(SAVED).status_code == 405
