import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.usage.conftest import a_record
from tests.usage.test_records import an_end
from usage.models import UsageRecord
from usage.paging import COUNT_MAX
from usage.records import RecordWriter
from usage.reports import today_summary
from usage.states import Source, State

pytestmark = pytest.mark.urls("tests.usage.urls")

LIST = "/admin/usage/usagerecord/"


@pytest.fixture
def ledger(dsn: str, tmp_path: Path) -> list[UsageRecord]:
    """Alice's good answer, Bob's failed one, and one that is still open."""

    async def fill() -> None:
        writer = RecordWriter(dsn, tmp_path, "worker-1")
        await writer.start()
        alice = a_record()
        bob = a_record(user_id=2, user_name="bob", upstream_model="qwen-4", credential_id=4, session_id="s-1")
        for record in (alice, bob, a_record()):
            await writer.open(record)
        writer.settle(an_end(alice))
        writer.settle(
            an_end(bob, state=State.UPSTREAM_ERROR, source=Source.PARTIAL, input_tokens=7, error_type="api_error")
        )
        await writer.close()

    asyncio.run(fill())
    return list(UsageRecord.objects.order_by("id"))


@pytest.fixture
def alice(client: Client, ledger: list[UsageRecord]) -> Client:
    client.force_login(User.objects.create_superuser("alice"))
    return client


def shown(client: Client, **filters: Any) -> set[str]:
    response = client.get(LIST, filters)
    assert response.status_code == 200
    return {record.user_name + " " + record.state for record in response.context["cl"].result_list}


def test_the_list_shows_each_record(alice: Client) -> None:
    assert shown(alice) == {"alice ok", "bob upstream_error", "alice open"}


def test_filters_narrow_the_list(alice: Client, ledger: list[UsageRecord]) -> None:
    today, tomorrow = (f"{timezone.now() + timedelta(days=days):%Y-%m-%d}" for days in (0, 1))

    assert shown(alice, user="2") == {"bob upstream_error"}
    assert shown(alice, model="glm-5") == {"alice ok", "alice open"}
    assert shown(alice, credential="4") == {"bob upstream_error"}
    assert shown(alice, state="open") == {"alice open"}
    assert len(shown(alice, started_at_from=today, started_at_to=today)) == 3
    assert shown(alice, started_at_from=tomorrow) == set()
    assert len(shown(alice, started_at_from="no day")) == 3


def test_search_finds_whole_ids_only(alice: Client, ledger: list[UsageRecord]) -> None:
    assert shown(alice, q=ledger[0].request_id) == {"alice ok"}
    assert shown(alice, q="s-1") == {"bob upstream_error"}
    assert shown(alice, q="s-%") == shown(alice, q="%" * 200) == shown(alice, q="';--") == set()


def test_the_list_counts_no_further_than_it_pages(alice: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        shown(alice)

    counts = [query["sql"] for query in queries if "COUNT(" in query["sql"] and "usagerecord" in query["sql"]]
    assert counts
    assert all("LIMIT" in sql for sql in counts)
    assert len(queries) < 20


def test_numbers_stand_under_each_other_with_commas(alice: Client, ledger: list[UsageRecord]) -> None:
    UsageRecord.objects.filter(pk=ledger[0].pk).update(
        input_tokens=1_234_567, cost_nano=70_000_000, ttft_ms=523, duration_ms=41_754
    )

    page = alice.get(LIST).content.decode()

    for name, number in (
        ("input_tokens", "1,234,567"),
        ("cost", "$0.0700"),
        ("ttft_ms", "523 ms"),
        ("duration_ms", "41.75 s"),
    ):
        (cell,) = re.findall(rf'<td class="(field-{name} [^"]*)">{re.escape(number)}</td>', page)
        assert "!text-end" in cell


def test_a_list_says_whether_it_counted_all(alice: Client, ledger: list[UsageRecord]) -> None:
    def words() -> str:
        return " ".join(alice.get(LIST).content.decode().split())

    assert "3 usage records" in words()
    names = (field.column for field in UsageRecord._meta.concrete_fields)
    columns = ", ".join(name for name in names if name not in ("id", "request_id"))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO usage_usagerecord (id, request_id, {columns}) SELECT"  # noqa: S608  (columns of ours)
            f" (left(id::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, request_id || n, {columns}"
            " FROM usage_usagerecord, generate_series(1, %s) AS n WHERE id = %s",
            [COUNT_MAX, ledger[0].pk],
        )

    assert "10,000 or more usage records" in words()
    assert "results (" not in words()


def test_a_record_can_be_read_and_nothing_else(alice: Client, ledger: list[UsageRecord]) -> None:
    page = f"{LIST}{ledger[0].pk}/change/"

    assert b"team key" in alice.get(page).content
    assert alice.post(page, {"user_name": "mallory"}).status_code == 403
    assert alice.get(f"{LIST}add/").status_code == 403
    assert alice.post(f"{LIST}{ledger[0].pk}/delete/", {"post": "yes"}).status_code == 403
    alice.post(LIST, {"action": "delete_selected", "_selected_action": [ledger[0].pk], "post": "yes"})
    assert UsageRecord.objects.count() == 3


def test_staff_without_the_permission_see_nothing(client: Client, ledger: list[UsageRecord]) -> None:
    charlie = User.objects.create_user("charlie", is_staff=True)
    client.force_login(charlie)

    assert client.get(LIST).status_code == 403
    assert client.get(f"{LIST}{ledger[0].pk}/change/").status_code == 403

    charlie.user_permissions.add(Permission.objects.get(codename="view_usagerecord"))
    assert client.get(LIST).status_code == 200


def test_members_who_are_no_staff_are_sent_away(client: Client, ledger: list[UsageRecord]) -> None:
    client.force_login(User.objects.create_user("bob"))

    assert client.get(LIST).status_code == 302


def test_a_hostile_name_is_escaped(alice: Client) -> None:
    UsageRecord.objects.filter(state="open").update(user_name="<script>alert(1)</script>")

    assert b"<script>alert" not in alice.get(LIST).content


def test_the_day_is_summed_up_without_the_open_ones(ledger: list[UsageRecord]) -> None:
    summary = today_summary()

    assert (summary["requests"], summary["attempts"], summary["errors"]) == (2, 2, 1)
    assert (summary["input_tokens"], summary["output_tokens"], summary["cache_read_tokens"]) == (107, 40, 80)
    assert today_summary(timezone.now() + timedelta(days=1))["requests"] == 0
