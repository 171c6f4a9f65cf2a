import csv
import io
import re
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.usage.people import HOSTILE, a_lead, an_hour, as_

pytestmark = pytest.mark.django_db

PAGE = "/admin/usage/reports/"


@pytest.fixture
def root() -> Client:
    return as_(User.objects.create_superuser("root"))


@pytest.fixture
def spent() -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    red = {"team_id": 90101, "team_name": "red"}
    blue = {"team_id": 90102, "team_name": "blue", "user_id": 2, "user_name": "bob"}
    an_hour(hour, **red, requests=1_111)
    an_hour(hour, **red, requests=2_222, upstream_model="qwen-4")
    an_hour(hour, **blue, requests=3_333)
    an_hour(hour - timedelta(days=1), **blue, requests=4_444, state="timeout", error_type="timeout_error")


def shown(client: Client, **words: str) -> tuple[Any, str]:
    response = client.get(PAGE, words)
    assert response.status_code == 200
    return response.context, response.content.decode()


def rows(context: Any) -> list[tuple[list[str], int]]:
    return [([cell.text for cell in cells], row["requests"]) for cells, row in context["lines"]]


def test_the_default_is_the_last_month_by_day(root: Client, spent: None) -> None:
    context, page = shown(root)

    assert [requests for _, requests in rows(context)] == [4_444, 6_666]
    assert context["whole"]["requests"] == 11_110
    assert 'class="bridge-chart"' in page


def test_two_groups_and_a_filter(root: Client, spent: None) -> None:
    context, _ = shown(root, by="team", then="model", state="ok")

    assert sorted(rows(context)) == [(["blue", "glm-5"], 3_333), (["red", "glm-5"], 1_111), (["red", "qwen-4"], 2_222)]
    assert [label for _, label, _ in context["kept"]] == ["state ok"]
    assert context["chart"] is None


def test_a_group_leads_to_the_report_about_itself(root: Client, spent: None) -> None:
    context, _ = shown(root, by="team")
    cells, _row = next(line for line in context["lines"] if line[0][0].text == "red")
    words = {name: values[0] for name, values in parse_qs(urlsplit(cells[0].link).query).items()}

    assert (words["team"], words["by"]) == ("90101", "user")
    context, _ = shown(root, **words)
    assert [requests for _, requests in rows(context)] == [3_333]


def test_a_day_leads_to_its_hours(root: Client, spent: None) -> None:
    context, _ = shown(root, by="day", team="90102")
    cells, _row = context["lines"][0]
    words = {name: values[0] for name, values in parse_qs(urlsplit(cells[0].link).query).items()}

    assert (words["by"], words["from"], words["team"]) == ("hour", words["to"], "90102")
    context, _ = shown(root, **words)
    assert [requests for _, requests in rows(context)] == [4_444]


def test_every_kind_of_time_can_be_followed(root: Client, spent: None) -> None:
    for span in ("hour", "day", "week", "month"):
        context, _ = shown(
            root, by=span, then="user", **({"from": str(timezone.now().date())} if span == "hour" else {})
        )
        for cells, _row in context["lines"]:
            for cell in cells:
                assert root.get(f"{PAGE}{cell.link}").status_code == 200


def test_the_form_offers_what_the_period_holds(root: Client, spent: None) -> None:
    context, _ = shown(root, team="90102")

    choices = {choice.name: choice for choice in context["choices"]}
    assert choices["team"].options == [("90102", "blue"), ("90101", "red")]
    assert choices["team"].chosen == "90102"
    assert [label for _, label, _ in context["kept"]] == ["team blue"]
    assert choices["model"].options == [("glm-5", "glm-5"), ("qwen-4", "qwen-4")]
    assert choices["user"].options == [("1", "alice"), ("2", "bob")]


def test_the_export_holds_the_same_rows(root: Client, spent: None) -> None:
    context, _ = shown(root, by="team", then="model", state="ok", show="requests")
    links = dict(context["exports"])

    lines = list(csv.DictReader(io.StringIO(root.get(links["csv"]).content.decode())))
    assert sorted(([line["team"], line["model"]], int(line["requests"])) for line in lines) == sorted(rows(context))
    answer = root.get(links["json"]).json()
    assert sum(row["requests"] for row in answer["rows"]) == 6_666


def test_too_many_rows_are_said_and_not_drawn(root: Client, spent: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = shown(root, by="day", then="user")
    monkeypatch.setattr("usage.pages.reports.ROWS_MAX", 2)

    context, page = shown(root, by="day", then="user")

    assert whole["chart"] is not None
    assert context["chart"] is None
    assert len(context["lines"]) == 2
    assert context["whole"]["requests"] == whole["whole"]["requests"] == 11_110
    assert "too many rows" in page


def test_the_url_is_the_whole_state(root: Client, spent: None) -> None:
    words = {
        "from": "2026-01-01",
        "to": "2026-12-31",
        "by": "month",
        "then": "team",
        "model": "glm-5",
        "show": "errors",
    }
    _, page = shown(root, **words)

    links = [unescape(link) for link in re.findall(r'href="(\?[^"]*show=cost_nano[^"]*)"', page)]
    (query,) = {urlsplit(link).query for link in links}
    assert {name: values[0] for name, values in parse_qs(query).items()} == words | {"show": "cost_nano"}


def test_charlie_sees_the_own_team_only(spent: None) -> None:
    charlie = a_lead("charlie", "blue", team_id=90102)

    context, page = shown(as_(charlie), by="team")

    assert [text for text, _ in rows(context)] == [["blue"]]
    assert "red" not in {label for choice in context["choices"] for _, label in choice.options}
    assert "1,111" not in page
    context, _ = shown(as_(charlie), team="90101")
    assert rows(context) == []


@pytest.mark.parametrize("name", ["reports/", "incident/", "requests/req_1/"])
def test_the_pages_are_for_staff_with_the_permission(name: str) -> None:
    path = f"/admin/usage/{name}"

    assert Client().get(path).status_code == 302
    assert as_(User.objects.create_user("bob")).get(path).status_code == 302
    assert as_(User.objects.create_user("mallory", is_staff=True)).get(path).status_code == 403


@pytest.mark.parametrize(
    "words",
    [
        {"by": "nonsense"},
        {"from": "yesterday"},
        {"from": "2026-02-02", "to": "2026-01-01"},
        {"user": "no id"},
        {"user": "9" * 30},
        {"by": "hour", "from": "2020-01-01"},
        {"from": "9999-12-31", "to": "9999-12-31"},
    ],
)
def test_what_makes_no_sense_is_said(root: Client, words: dict[str, str]) -> None:
    response = root.get(PAGE, words)

    assert response.status_code == 400
    assert b'role="alert"' in response.content


@pytest.mark.parametrize("value", ["\x00", "%" * 200, "';--", "\u202e", "x" * 5_000])
def test_odd_values_find_nothing_and_break_nothing(root: Client, spent: None, value: str) -> None:
    context, _ = shown(root, model=value)

    assert rows(context) == []


def test_hostile_names_are_text(root: Client) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    an_hour(hour, team_name=HOSTILE, upstream_model=HOSTILE, user_name=HOSTILE, credential_label=HOSTILE)

    for words in ({"by": "team", "then": "user"}, {"by": "day", "then": "model"}, {"model": HOSTILE}):
        _, page = shown(root, **words)
        assert "<img src=x" not in page
        assert page.count("</script>") == len(re.findall("<script", page))


def test_groups_without_a_name_are_shown(root: Client) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    an_hour(hour, team_id=None, team_name="")

    context, _ = shown(root, by="team", then="day")

    assert rows(context)[0][0][0] == "(none)"
    assert context["lines"][0][0][0].link == ""


def test_the_page_needs_few_queries(root: Client, spent: None) -> None:
    with CaptureQueriesContext(connection) as queries:
        shown(root, by="day", then="model")

    assert len(queries) < 15
