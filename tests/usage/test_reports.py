import csv
import io
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.contrib.auth.models import Group, User
from django.test import AsyncClient, Client
from django.utils import timezone

from keys.models import ClientToken
from keys.tokens import issue_token, revoke_token
from members.figures import read_figures
from tests.members.ledger import add_record
from tests.usage.conftest import a_record, aside
from tests.usage.test_records import an_end, settled
from usage.choices import names_seen
from usage.exports import as_csv, safe_cell
from usage.ids import first_id_at, new_record_id
from usage.periods import day_start
from usage.records import RecordWriter
from usage.reports import DIMENSIONS, SPANS, Question, records, report
from usage.session_reports import sessions
from usage.states import Source, State
from usage.visibility import Scope

pytestmark = [pytest.mark.urls("tests.usage.urls"), pytest.mark.django_db(transaction=True)]
Query = Callable[..., list[dict[str, Any]]]
ALL = Scope(is_everything=True)


@pytest.fixture(autouse=True)
async def _no_connection_left() -> AsyncIterator[None]:
    yield
    await aside(lambda: None)


def a_question(**changes: Any) -> Question:
    today = timezone.now().date()
    facts: dict[str, Any] = {"start": day_start(today), "end": day_start(today) + timedelta(days=1), "scope": ALL}
    return Question(**facts | changes)


async def spend(writer: RecordWriter) -> None:
    """Alice (team 1): five good answers; Bob (team 2): one good one, one estimated, one failed, one open."""
    alice = {"user_id": 1, "user_name": "alice", "team_id": 1, "team_name": "core"}
    bob = {"user_id": 2, "user_name": "=bob()", "team_id": 2, "team_name": "web", "upstream_model": "qwen-4"}
    ends: list[tuple[dict[str, Any], dict[str, Any]]] = [
        *[(alice, {"ttft_ms": 100 * n, "duration_ms": 1000}) for n in range(1, 6)],
        (bob, {}),
        (bob, {"state": State.CLIENT_GONE, "source": Source.ESTIMATED}),
        (bob, {"state": State.TIMEOUT, "source": Source.UNKNOWN, "error_type": "api_error", "input_tokens": 0}),
    ]
    for who, end in ends:
        record = a_record(**who)
        await writer.open(record)
        writer.settle(an_end(record, **end))
    await writer.open(a_record(**bob))
    await settled(writer)


@pytest.fixture
async def spent(writer: RecordWriter) -> None:
    await spend(writer)


async def test_a_report_sums_shares_and_percentiles(spent: None) -> None:
    alice, bob = await aside(report, a_question(groups=("user",)))

    assert (alice["user"], alice["user_id"], alice["attempts"], alice["errors"]) == ("alice", 1, 5, 0)
    assert (alice["input_tokens"], alice["cache_read_tokens"], alice["output_tokens"]) == (500, 200, 100)
    assert (alice["cache_share"], alice["estimated_share"], alice["error_share"]) == (0.2857, 0.0, 0.0)
    assert 235 < alice["ttft_p50_ms"] <= 315
    assert (bob["attempts"], bob["errors"], bob["unpriced"]) == (3, 1, 3)
    assert bob["error_share"] == 0.3333
    assert bob["estimated_share"] == round((160 + 60) / (160 + 160 + 60), 4)


async def test_two_dimensions_group_together(spent: None) -> None:
    rows = await aside(report, a_question(groups=("day", "state")))

    assert {(row["day"], row["state"], row["attempts"]) for row in rows} == {
        (day_start(timezone.now().date()), state, count)
        for state, count in (("ok", 6), ("client_gone", 1), ("timeout", 1))
    }


async def test_hours_and_days_tell_the_same(spent: None) -> None:
    by_day = await aside(report, a_question())
    by_hour = await aside(report, a_question(groups=("hour",)))

    assert sum(row["output_tokens"] for row in by_hour) == by_day[0]["output_tokens"] == 160


async def test_every_pair_of_groups_adds_up_to_the_records(writer: RecordWriter, query: Query) -> None:
    await spend(writer)
    for place in range(3):
        record = a_record(credential_id=place, credential_label=f"key-{place}", user_id=place, team_id=place)
        await writer.open(record)
        writer.settle(an_end(record, ttft_ms=50))
    await settled(writer)
    columns = "count(*) AS attempts, sum(input_tokens)::int AS input_tokens, sum(output_tokens)::int AS output_tokens"
    (truth,) = query(f"SELECT {columns} FROM usage_usagerecord WHERE state <> 'open'")  # noqa: S608

    for groups in combinations([*SPANS, *DIMENSIONS], 2):
        rows = await aside(report, a_question(groups=groups))

        for name, count in truth.items():
            assert sum(row[name] for row in rows) == count, groups
        assert all(row["ttft_p50_ms"] is None for row in rows) == knows_no_times(groups), groups


async def test_pairs_have_the_times_of_the_first_rows_only(spent: None) -> None:
    pairs = a_question(groups=("user", "state"))

    whole, cut = await aside(report, pairs), await aside(report, pairs, timed=1)

    (first, *others), (first_cut, *others_cut) = whole, cut
    assert first == first_cut
    assert 235 < first["ttft_p50_ms"] <= 315
    assert others
    times = {name: None for name in first if name.endswith("_ms")}
    assert others_cut == [row | times for row in others]


def knows_no_times(groups: tuple[str, ...]) -> bool:
    """Tell whether members and credentials meet over days, of which no times are kept."""
    of_members = {"user", "team", "token", "alias", "client", "version"}
    return "credential" in groups and not of_members.isdisjoint(groups)


async def test_credentials_of_a_team_are_told_without_those_of_others(spent: None) -> None:
    of_core = a_question(groups=("credential",), scope=Scope(team_ids=(1,)))

    (row,) = await aside(report, of_core)

    assert (row["credential"], row["attempts"]) == ("team key", 5)


async def test_who_was_renamed_has_the_last_name(writer: RecordWriter, query: Query) -> None:
    for name in ("zoe", "anna"):
        for team in (3, 4):
            record = a_record(user_id=5, user_name=name, team_id=team, team_name=f"team {team} of {name}")
            await writer.open(record)
            writer.settle(an_end(record))
        await settled(writer)
        if name == "zoe":
            for span in ("day", "hour"):
                query(f"UPDATE usage_usage{span} SET {span} = {span} - interval '1 day' RETURNING 1")  # noqa: S608
    start = day_start(timezone.now().date() - timedelta(days=1))
    question = a_question(start=start, groups=("user",))

    (whole,) = await aside(report, question)
    assert (whole["user"], whole["user_id"], whole["attempts"]) == ("anna", 5, 4)
    pairs = await aside(report, a_question(start=start, groups=("user", "team")))
    assert {(row["user"], row["team"]) for row in pairs} == {("anna", "team 3 of anna"), ("anna", "team 4 of anna")}
    by_hour = await aside(report, a_question(start=start, groups=("user", "hour")))
    assert [row["user"] for row in by_hour] == ["anna", "anna"]
    assert (await aside(names_seen, ("user",), ALL, start, question.end))["user"] == {"5": "anna"}
    found = await aside(read_figures, "team_id", 3, start, ("user_id",))
    assert [person.user_name for person in found["user_id"]] == ["anna"]


async def test_a_report_of_nothing_is_empty() -> None:
    assert await aside(report, a_question(groups=("user",))) == []
    assert await aside(report, a_question()) == []


async def test_filters_and_scopes_narrow_reports_and_records(spent: None) -> None:
    bobs = a_question(scope=Scope(user_id=2))
    assert (await aside(report, bobs))[0]["attempts"] == 3
    assert len((await aside(records, bobs))[0]) == 4
    assert len((await aside(records, a_question(scope=Scope(team_ids=(1,)))))[0]) == 5
    assert await aside(records, a_question(scope=Scope())) == ([], None)
    assert (await aside(report, a_question(keep={"user": "2", "model": "qwen-4"})))[0]["attempts"] == 3
    assert await aside(report, a_question(keep={"user": "2", "model": "glm-5"})) == []
    assert await aside(report, a_question(keep={"model": "' OR 1=1 --"})) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": ("user", "model", "day")},
        {"groups": ("user", "user")},
        {"groups": ("user; DROP TABLE x",)},
        {"keep": {"user": "one"}},
        {"keep": {"user": "99999999999999999999"}},
        {"keep": {"password": "x"}},
        {"start": datetime(2031, 1, 1, tzinfo=UTC), "end": datetime(2030, 1, 1, tzinfo=UTC)},
        {"start": datetime(2030, 1, 1, tzinfo=UTC), "end": datetime(2031, 1, 1, tzinfo=UTC), "groups": ("hour",)},
        {
            "start": datetime(2030, 1, 1, tzinfo=UTC),
            "end": datetime(2030, 1, 9, tzinfo=UTC),
            "groups": ("hour", "credential"),
        },
    ],
)
def test_a_question_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        a_question(**wrong)


async def test_records_page_by_key_without_gap_or_repetition(spent: None) -> None:
    seen, after = [], None
    while True:
        page, after = await aside(records, a_question(), after=after, limit=4)
        seen += [row["id"] for row in page]
        if after is None:
            break

    assert len(seen) == len(set(seen)) == 9
    assert seen == sorted(seen, reverse=True)


async def test_few_records_are_found_however_old_and_page_by_page(writer: RecordWriter, query: Query) -> None:
    now = timezone.now()
    for days in (0, 0, 3, 9, 9, 25):
        moment = now - timedelta(days=days)
        record = a_record(id=UUID(int=first_id_at(moment).int + new_record_id().int % 2**80), client_name="rare")
        await writer.open(record)
        query("UPDATE usage_usagerecord SET started_at = %s WHERE id = %s", moment, record.id)
        writer.settle(an_end(record))
    await writer.open(a_record(client_name="rare"))
    await writer.open(a_record(client_name="running"))
    await settled(writer)

    for limit in (1, 2, 3, 7):
        question = a_question(keep={"client": "rare"}, start=now - timedelta(days=60))
        page, after = await aside(records, question, limit=limit)
        seen = page
        while after is not None:
            page, after = await aside(records, question, after=after, limit=limit)
            seen += page
        assert len(seen) == 7, limit

    assert len((await aside(records, a_question(keep={"client": "running"})))[0]) == 1
    assert (await aside(records, a_question(keep={"client": "none"})))[0] == []
    strange = UUID(int=2**128 - 1)
    assert len((await aside(records, a_question(keep={"client": "running"}), after=strange))[0]) == 1


async def test_sessions_are_summed_up_per_token(writer: RecordWriter) -> None:
    for token, session, tokens in ((1, "a", 10), (1, "a", 20), (2, "a", 50), (1, "b", 5), (1, "", 1000)):
        record = a_record(token_id=token, session_id=session)
        await writer.open(record)
        writer.settle(an_end(record, input_tokens=tokens, cache_read_tokens=0, output_tokens=0, thinking_tokens=0))
    await writer.open(a_record(session_id="running"))
    await settled(writer)

    rows = await aside(sessions, a_question())

    assert [(row["session"], row["requests"], row["input_tokens"]) for row in rows] == [
        ("a", 1, 50),
        ("a", 2, 30),
        ("b", 1, 5),
    ]
    assert await aside(sessions, a_question(scope=Scope(user_id=9))) == []
    with pytest.raises(ValueError, match="7 days"):
        sessions(a_question(start=datetime(2020, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")'])
def test_no_cell_is_a_formula(formula: str) -> None:
    text = as_csv(["a"], [{"a": formula}])

    assert list(csv.reader(io.StringIO(text, newline="")))[1] == ["'" + formula]


def test_cells_that_are_no_text_stay_as_they_are() -> None:
    assert [safe_cell(value) for value in (5, -5, None, ["=a", "b"])] == [5, -5, None, "'=a b"]


@pytest.fixture
def members(spent: None) -> Callable[[], Any]:
    def make() -> dict[str, str]:
        # The records' team; after a fresh start the id may be a role's.
        group, _ = Group.objects.update_or_create(pk=1, defaults={"name": "core"})
        User.objects.create_superuser("root", pk=10)
        User.objects.create_user("alice", pk=1).groups.add(group)
        bob = User.objects.create_user("bob", pk=2)
        _, reads = issue_token(bob, "reader", scopes=["usage:read"])
        _, plain = issue_token(bob, "plain")
        gone, revoked = issue_token(bob, "gone", scopes=["usage:read"])
        revoke_token(gone.pk)
        _, elsewhere = issue_token(bob, "elsewhere", scopes=["usage:read"], networks=["192.0.2.0/24"])
        return {"reads": reads, "plain": plain, "revoked": revoked, "elsewhere": elsewhere}

    return make


async def test_the_api_answers_by_what_the_asker_may_see(members: Callable[[], Any]) -> None:
    tokens = await aside(members)
    client = AsyncClient()

    async def status(**headers: str) -> int:
        return (await client.get("/usage/api/report", headers=headers)).status_code

    assert await status() == 401
    assert await status(authorization="Bearer nonsense") == 401
    assert await status(authorization=f"Bearer {tokens['revoked']}") == 401
    assert await status(authorization=f"Bearer {tokens['plain']}") == 403
    assert await status(authorization=f"Bearer {tokens['elsewhere']}") == 403
    assert (await client.get("/usage/api/sessions")).status_code == 401
    assert (await client.get("/usage/api/sessions", headers={"x-api-key": tokens["reads"]})).status_code == 200
    table = await client.get("/usage/api/sessions?format=csv", headers={"x-api-key": tokens["reads"]})
    assert table.content.decode().startswith("session,user_id,user,client,version,started_at,")
    assert table["content-disposition"] == 'attachment; filename="sessions.csv"'
    long = await client.get("/usage/api/sessions?from=2020-01-01", headers={"x-api-key": tokens["reads"]})
    assert long.status_code == 400
    own = await client.get("/usage/api/report?by=user", headers={"x-api-key": tokens["reads"]})
    assert [row["user"] for row in orjson.loads(own.content)["rows"]] == ["=bob()"]


async def test_a_token_is_told_of_its_own_requests_and_of_no_others(members: Callable[[], Any]) -> None:
    tokens = await aside(members)
    client = AsyncClient()

    def record() -> None:
        by = ClientToken.objects.get(name="plain")
        other = ClientToken.objects.get(name="reader")
        add_record(by.user, by, request_id="req_own", attempt=2, source="estimated", notes=["media_omitted"])
        add_record(by.user, by, request_id="req_own", attempt=1, state="upstream_error")
        add_record(by.user, other, request_id="req_other")
        add_record(by.user, by, request_id="req_old", age=timedelta(days=2))

    async def asked(request_id: str, **headers: str) -> Any:
        return await client.get(f"/usage/api/requests/{request_id}", headers=headers)

    await aside(record)
    own = await asked("req_own", authorization=f"Bearer {tokens['plain']}")

    first, second = orjson.loads(own.content)["attempts"]
    assert (first["attempt"], first["state"]) == (1, "upstream_error")
    assert (second["source"], second["notes"]) == ("estimated", ["media_omitted"])
    assert not [name for name in first if "credential" in name]
    assert own["cache-control"] == "no-store"
    for request_id in ("req_other", "req_old", "req_none", "%00"):
        assert (await asked(request_id, **{"x-api-key": tokens["plain"]})).status_code == 404
    assert (await asked("req_own", **{"x-api-key": tokens["reads"]})).status_code == 404
    assert (await asked("req_own", **{"x-api-key": tokens["revoked"]})).status_code == 401
    assert (await asked("req_own", **{"x-api-key": tokens["elsewhere"]})).status_code == 403
    assert (await asked("req_own")).status_code == 401


async def test_the_api_tells_members_their_own_usage_and_superusers_all(members: Callable[[], Any]) -> None:
    await aside(members)

    def users(name: str) -> list[str]:
        client = Client()
        client.force_login(User.objects.get(username=name))
        return [row["user"] for row in client.get("/usage/api/report?by=user").json()["rows"]]

    assert await aside(users, "bob") == ["=bob()"]
    assert await aside(users, "root") == ["alice", "=bob()"]


async def test_the_api_says_when_rows_are_missing(members: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    await aside(members)

    def answers() -> list[Any]:
        client = Client()
        client.force_login(User.objects.get(username="root"))
        return [client.get(f"/usage/api/report?by=user{more}") for more in ("", "&format=csv")]

    whole, whole_csv = await aside(answers)
    monkeypatch.setattr("usage.views.ROWS_MAX", 1)
    monkeypatch.setattr("usage.views.EXPORT_MAX", 1)
    cut, cut_csv = await aside(answers)

    assert (whole.json()["truncated"], cut.json()["truncated"]) == (False, True)
    assert (whole_csv["x-truncated"], cut_csv["x-truncated"]) == ("false", "true")


@pytest.mark.parametrize("wrong", ["from=yesterday", "by=secret", "user=one", "from=2030-01-02&to=2030-01-01"])
async def test_the_api_refuses_what_makes_no_sense(wrong: str, members: Callable[[], Any]) -> None:
    tokens = await aside(members)

    response = await AsyncClient().get(f"/usage/api/report?{wrong}", headers={"x-api-key": tokens["reads"]})

    assert response.status_code == 400
    assert "error" in orjson.loads(response.content)


async def test_exports_stream_all_records(members: Callable[[], Any]) -> None:
    await aside(members)
    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(username="root"))

    response = await client.get("/usage/api/records?format=csv")
    text = b"".join([chunk async for chunk in response.streaming_content]).decode()
    lines = await client.get("/usage/api/records?format=jsonl&user=2")
    rows = b"".join([chunk async for chunk in lines.streaming_content]).splitlines()
    page = orjson.loads((await client.get("/usage/api/records?limit=3")).content)

    table = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(table) == 9
    assert {row["user_name"] for row in table} == {"alice", "'=bob()"}
    assert response["x-estimated-records"] == "8"  # the open one isn't settled
    assert len(rows) == 4
    assert len(page["records"]) == 3
    assert page["after"] == page["records"][-1]["id"]
