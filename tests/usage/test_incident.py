from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.members.ledger import add_record
from tests.usage.people import HOSTILE, a_lead, a_supporter, as_, settle
from usage.incidents import as_text, first_bad, latest_jump, look_into
from usage.models import PoolChange, UsageRecord
from usage.states import State
from usage.visibility import Scope

PAGE = "/admin/usage/incident/"
ALL = Scope(is_everything=True)
START = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hours(*pairs: tuple[int, int]) -> list[tuple[datetime, int, int]]:
    return [(START + place * HOUR, attempts, errors) for place, (attempts, errors) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("pairs", "place"),
    [
        ([(100, 1), (100, 2), (100, 30), (100, 40), (100, 1)], 2),
        ([(100, 30), (100, 1), (100, 50)], 2),
        ([(100, 1), (100, 2), (100, 4)], None),
        ([(3, 0), (3, 3)], None),
        ([(1000, 200), (1000, 250), (1000, 300)], 0),
        ([], None),
    ],
)
def test_a_jump_is_far_above_what_was_usual(pairs: list[tuple[int, int]], place: int | None) -> None:
    assert latest_jump(hours(*pairs)) == (None if place is None else START + place * HOUR)


def failed_at(*minutes: float) -> list[UsageRecord]:
    return [UsageRecord(started_at=START + timedelta(minutes=minute)) for minute in minutes]


def test_it_begins_where_errors_are_many() -> None:
    records = failed_at(1, 7.5, 30, 30.1, 30.2, 30.3, 31, 31.1, 31.2, 31.3, 31.4, 31.5, 31.6, 31.7)

    assert first_bad(records) is records[2]
    assert first_bad([]) is None


@pytest.fixture
def broken(dsn: str, tmp_path: Path) -> datetime:
    """An hour in which Bob's requests with one credential fail, after a day in which they didn't."""
    red = {"team_id": 90101, "team_name": "red"}
    blue = {"team_id": 90102, "team_name": "blue", "user_id": 2, "user_name": "bob", "credential_label": "second key"}
    end = {"state": State.UPSTREAM_ERROR, "error_type": "overloaded_error", "http_status": 529}
    settle(
        dsn,
        tmp_path,
        *[(red, {})] * 10,
        *[(blue | {"request_id": f"req_{place}"}, end) for place in range(6)],
        (blue | {"request_id": "req_0", "attempt": 2}, end),
    )
    moment = timezone.now()
    UsageRecord.objects.update(started_at=moment)  # one minute: it is by minutes that a beginning is looked for
    hour = moment.replace(minute=0, second=0, microsecond=0)
    bob = User.objects.create_user("bob")
    for _ in range(5):
        add_record(bob, age=3 * HOUR, credential_label="second key", upstream_name="provider")
    PoolChange.objects.create(
        upstream_id=7, upstream_name="provider", credential_id=4, credential_label="second key", state="cooling",
        cause="overloaded",
    )  # fmt: skip
    return hour


def test_it_tells_who_was_hit(broken: datetime) -> None:
    incident = look_into(ALL, broken, broken + HOUR, with_pool=True)

    assert (incident.whole.attempts, incident.whole.errors, incident.requests, incident.failovers) == (17, 7, 16, 1)
    assert [(hit.name, hit.errors, hit.attempts) for hit in incident.hits["user"]] == [("bob", 7, 7)]
    (credential,) = incident.hits["credential"]
    assert (credential.name, credential.rate, credential.rate_before) == ("provider: second key", 1.0, 0.0)
    assert [hit.name for hit in incident.hits["cause"]] == ["overloaded error, upstream error"]
    assert [hit.name for hit in incident.hits["client"]] == ["claude-cli 2.1.0"]
    assert incident.first_bad is not None
    assert incident.first_bad.request_id == "req_0"


def test_the_text_can_be_pasted(broken: datetime) -> None:
    text = as_text(look_into(ALL, broken, broken + HOUR, with_pool=True))

    assert "Errors: 7 of 17 attempts (41.2%), the day before 0.0%" in text
    assert "First bad request: req_0" in text
    assert "  bob: 7 of 7 (100.0%), before 0.0%" in text
    assert "provider: second key cooling (overloaded)" in text


def test_the_text_holds_nothing_that_turns_or_breaks_lines(dsn: str, tmp_path: Path) -> None:
    name = f"line\n\rbreak\u202e\u200f{HOSTILE}"
    settle(dsn, tmp_path, *[({"user_name": name, "upstream_model": name}, {"state": State.TIMEOUT})] * 6)
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)

    text = as_text(look_into(ALL, hour, hour + HOUR, with_pool=False))

    assert "line break <img" in text
    assert not set("\u202e\u200f\r") & set(text)
    assert max(map(len, text.splitlines())) < 300


def test_the_page_finds_the_jump_by_itself(broken: datetime) -> None:
    response = as_(a_supporter("dora")).get(PAGE)

    page = response.content.decode()
    assert response.context["is_jump"]
    assert "The error rate jumped here." in page
    assert "/admin/usage/requests/req_0/" in page
    assert "second key cooling" in page


def test_a_lead_sees_the_own_team_and_not_the_pool(broken: datetime) -> None:
    charlie = a_lead("charlie", "blue", team_id=90101)

    response = as_(charlie).get(PAGE)

    assert response.context["incident"].whole.errors == 0
    assert b"second key" not in response.content
    assert b"req_0" not in response.content
    assert b"What the pool did" not in response.content


@pytest.mark.parametrize(
    "words",
    [{"from": "yesterday"}, {"from": "\x00"}, {"from": "0001-01-01T00:00"}, {"hours": "-1"}, {"hours": "9" * 400},
     {"from": "9999-12-31T23:00"}, {"from": "2026-03-04T12:34", "hours": "24"}],
)  # fmt: skip
def test_odd_words_do_no_harm(dsn: str, words: dict[str, Any]) -> None:
    assert as_(User.objects.create_superuser("root")).get(PAGE, words).status_code == 200


def test_quiet_times_have_a_page(dsn: str) -> None:
    page = as_(User.objects.create_superuser("root")).get(PAGE).content.decode()

    assert "No jump of the error rate" in page
    assert "What the pool did: nothing" in page


def test_the_page_needs_few_queries(broken: datetime) -> None:
    client: Client = as_(User.objects.create_superuser("root"))

    with CaptureQueriesContext(connection) as queries:
        client.get(PAGE)

    assert len(queries) < 15
