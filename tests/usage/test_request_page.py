from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from bridgeproject.navigation import navigation
from keys.models import Credential, Upstream
from tests.usage.people import HOSTILE, a_lead, a_supporter, as_, settle
from translator.core.emulation.kinds import EMULATION, REPAIRS
from usage.models import Price, UsageRecord
from usage.pages.notes import WORDS, in_words
from usage.pages.requests import told
from usage.states import Source, State


def page_of(request_id: str) -> str:
    return f"/admin/usage/requests/{request_id}/"


@pytest.fixture
def root(dsn: str) -> Client:
    return as_(User.objects.create_superuser("root"))


@pytest.fixture
def prices(dsn: str) -> Price:
    return Price.objects.create(
        upstream_model="glm-5",
        valid_from=timezone.now() - timedelta(days=1),
        input_price=2_000_000,
        output_price=10_000_000,
        cache_read_price=200_000,
        origin="the price list",
    )


def test_a_request_with_its_attempts(root: Client, dsn: str, tmp_path: Path, prices: Price) -> None:
    request = {"request_id": "req_1", "session_id": "s-1"}
    failed = {"state": State.UPSTREAM_ERROR, "source": Source.UNKNOWN, "error_type": "overloaded_error",
              "http_status": 503, "ttft_ms": None, "duration_ms": 400, "stop_reason": ""}  # fmt: skip
    for name in ("input_tokens", "cache_read_tokens", "output_tokens", "thinking_tokens"):
        failed[name] = 0
    settle(dsn, tmp_path, (request, failed), (request | {"attempt": 2}, {"notes": ("media_omitted", "clamped_output")}))

    response = root.get(page_of("req_1"))
    page = response.content.decode()

    assert [attempt.record.attempt for attempt in response.context["attempts"]] == [1, 2]
    for text in (
        "Attempt 1",
        "Attempt 2",
        "overloaded_error",
        "503",
        "end_turn",
        "the price list",
        "+250 ms",
        "+900 ms",
    ):
        assert text in page
    assert in_words("media_omitted") in page
    assert "impossible and was cut: output" in page


def test_the_side_bar_shows_where_a_request_belongs(root: Client) -> None:
    request = root.get(page_of("req_1")).wsgi_request

    items = [item for section in navigation(request) for item in section["items"]]

    assert [item["title"] for item in items if item["active"]] == ["Requests"]


def test_the_kinds_add_up_to_the_records_cost(dsn: str, tmp_path: Path, prices: Price) -> None:
    settle(dsn, tmp_path, ({"request_id": "req_1"}, {"input_tokens": 1_000, "cache_write_tokens": 7}))
    records = list(UsageRecord.objects.all())

    (attempt,) = told(records, timezone.now(), with_pool=False)

    costs = {item.kind: item.cost_nano for item in attempt.counted}
    assert costs["cache read"] == 40 * 200
    assert costs["cache write"] == 7 * 2_000
    assert costs["thinking"] == 5 * 10_000
    assert sum(costs.values()) == records[0].cost_nano  # type: ignore[arg-type]


def test_steps_fill_the_time_of_the_request(dsn: str, tmp_path: Path) -> None:
    settle(dsn, tmp_path, ({"request_id": "req_1"}, {}))
    UsageRecord.objects.update(started_at=timezone.now() - timedelta(seconds=2))
    record = UsageRecord.objects.get()
    record.settled_at = record.started_at + timedelta(seconds=1)

    (attempt,) = told([record], timezone.now(), with_pool=False)

    assert [(step.kind, step.ms) for step in attempt.steps] == [("wait", 250), ("answer", 650), ("settle", 100)]
    assert [step.left_percent for step in attempt.steps] == [0, 25, 90]
    assert sum(step.width_percent for step in attempt.steps) == pytest.approx(100)


def test_what_waited_in_the_gateway_is_queued(root: Client, dsn: str, tmp_path: Path) -> None:
    request = {"request_id": "req_1"}
    ended: dict[str, Any] = {"ttft_ms": 100, "duration_ms": 300}
    settle(dsn, tmp_path, (request, ended | {"queued_ms": 700}), (request | {"attempt": 2}, ended | {"queued_ms": 500}))
    sent = timezone.now() - timedelta(minutes=1)
    for attempt, after_ms in ((1, 700), (2, 1500)):
        moment = sent + timedelta(milliseconds=after_ms)
        settled_at = moment + timedelta(milliseconds=500 if attempt == 2 else 300)
        UsageRecord.objects.filter(attempt=attempt).update(started_at=moment, settled_at=settled_at)

    response = root.get(page_of("req_1"))

    first, second = response.context["attempts"]
    assert (first.queued_at, second.queued_at) == (sent, sent + timedelta(seconds=1))
    assert [(step.kind, step.left_percent, step.width_percent) for step in first.steps] == [
        ("queue", 0, 35),
        ("wait", 35, 5),
        ("answer", 40, 10),
    ]
    assert next((step.kind, step.left_percent) for step in second.steps) == ("queue", 50)
    assert response.context["queued_ms"] == 1200
    assert "for 700 ms" in response.content.decode()


def test_an_attempt_after_another_began_to_queue_when_that_ended(dsn: str, tmp_path: Path) -> None:
    """Postgres' time at opening is earlier than the send by what the opening took."""
    request, times = {"request_id": "req_1"}, {"ttft_ms": None, "duration_ms": 10, "queued_ms": 5}
    settle(dsn, tmp_path, (request, times), (request | {"attempt": 2}, times))
    moment = timezone.now() - timedelta(minutes=1)
    UsageRecord.objects.update(started_at=moment)
    UsageRecord.objects.filter(attempt=2).update(started_at=moment + timedelta(milliseconds=12))

    first, second = told(list(UsageRecord.objects.order_by("attempt")), timezone.now(), with_pool=False)

    assert second.queued_at == first.last_byte_at == moment + timedelta(milliseconds=10)
    assert second.sent_at == moment + timedelta(milliseconds=15)


def test_an_open_request_has_a_page(root: Client, dsn: str, tmp_path: Path) -> None:
    (request_id,) = settle(dsn, tmp_path, ({}, None))

    response = root.get(page_of(request_id))

    assert response.status_code == 200
    assert response.context["cost"] is None


def test_why_this_key_is_told_to_who_may_see_credentials(dsn: str, tmp_path: Path) -> None:
    alice = a_lead("alice", "red")
    red = Group.objects.get(name="red")
    upstream = Upstream.objects.create(name="provider", base_url="https://example.com/v1")
    first, other = (Credential.objects.create(upstream=upstream, label=label) for label in ("first", "the other"))
    settle(dsn, tmp_path, ({"request_id": "req_1", "team_id": red.pk}, {}))
    closest = [[first.pk, 0.5], [other.pk, 0.7]]
    UsageRecord.objects.update(decision={"chosen": first.pk, "why": "lowest", "closest": closest, "pool": 2})

    assert "the other" in as_(a_supporter("dora")).get(page_of("req_1")).content.decode()
    page = as_(alice).get(page_of("req_1")).content.decode()
    assert "the other" not in page
    assert "Why this key?" not in page


def test_charlie_gets_404_for_others_requests(dsn: str, tmp_path: Path) -> None:
    charlie = a_lead("charlie", "blue")
    blue = Group.objects.get(name="blue")
    others, own = settle(dsn, tmp_path, ({"team_id": blue.pk + 1}, {}), ({"team_id": blue.pk}, {}))

    assert as_(charlie).get(page_of(others)).status_code == 404
    assert as_(charlie).get(page_of(own)).status_code == 200


@pytest.mark.parametrize("request_id", ["nothing", "%25", "a/b", "%00", "x" * 300, "%E2%80%AE"])
def test_what_there_is_not_is_404(root: Client, request_id: str) -> None:
    assert root.get(page_of(request_id)).status_code == 404


def test_hostile_words_are_text(root: Client, dsn: str, tmp_path: Path) -> None:
    names = ("user_name", "team_name", "token_name", "alias", "upstream_name", "upstream_model", "credential_label",
             "client_name", "client_version", "session_id")  # fmt: skip
    opened: dict[str, Any] = {"request_id": "re<q>/\u202e", **dict.fromkeys(names, HOSTILE)}
    settle(dsn, tmp_path, (opened, {"stop_reason": HOSTILE, "error_type": HOSTILE, "notes": (HOSTILE,)}))

    response = root.get("/admin/usage/requests/re%3Cq%3E/%E2%80%AE/")

    assert response.status_code == 200
    assert b"<img src=x" not in response.content


def test_a_compaction_is_told_with_what_it_saved() -> None:
    assert in_words("compaction_saved_85000") == "input tokens that this saved, estimated: 85000"
    assert in_words("compaction_by_req_4s_V") == "the summary was written by request req_4s_V"


def test_a_note_that_is_not_known_is_written_out() -> None:
    assert in_words("some_new_note") == "some new note"


def test_each_repair_of_a_tool_call_has_words() -> None:
    assert {EMULATION, *REPAIRS} <= WORDS.keys()
