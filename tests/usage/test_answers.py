"""How upstream models answer: the numbers equal the records', and each sees the own ones only."""
# ruff: noqa: S608  (statements are built from our own words)

import csv
import io
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from keys.tokens import issue_token
from tests.usage.people import HOSTILE, a_lead, a_supporter, as_, settle
from translator.core.emulation.kinds import REPAIRS
from usage.answers import answers, time_before
from usage.histogram import BOUNDS_MS, BUCKETS, percentile_ms
from usage.ids import first_id_at
from usage.models import UsageRecord
from usage.pages.notes import ADAPTED, MENDED, OTHER, WORDS, is_mended
from usage.partitions import make_partitions
from usage.periods import day_start
from usage.reports import Question
from usage.rollups import rolled
from usage.states import Source, State
from usage.tallies import Fared, Tally, as_row
from usage.visibility import Scope

PAGE = "/admin/usage/answers/"
LIST = "/admin/usage/usagerecord/"
ALL = Scope(is_everything=True)
RED = 90101
MODELS = ((90007, "acme", "glm-5"), (90007, "acme", "kimi-3"), (90008, "north", "glm-5"))
NOTES: tuple[list[str], ...] = (
    [],
    ["tool_emulation"],
    ["tool_emulation", "tool_json_loose", "tool_json_quotes"],
    ["media_omitted"],
    ["clamped_output", "usage_absurd"],
    ["compaction_trim", "compaction_covered_7", "compaction_saved_1200", "compaction_by_req_1"],
)
HOUR = timedelta(hours=1)


def next_hour() -> datetime:
    return timezone.now().replace(minute=0, second=0, microsecond=0) + HOUR


def keep(*records: dict[str, Any]) -> None:
    """Store settled records and their sums, as the ledger's writer would have."""
    oldest = min((record["started_at"] for record in records), default=timezone.now())
    make_partitions(connection, oldest, months_ahead=2)
    rows = []
    for number, record in enumerate(records):
        identity = first_id_at(record["started_at"])
        facts = {"request_id": f"req_{number}", "settled_at": record["started_at"], "input_tokens": 1}
        rows.append(UsageRecord(id=type(identity)(int=identity.int | 7 << 76 | 2 << 62 | number), **facts | record))
    UsageRecord.objects.bulk_create(rows)
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {rolled('usage_usagerecord')} SELECT 1")


def a_record(age: timedelta = timedelta(), model: int = 0, **changes: Any) -> dict[str, Any]:
    upstream_id, upstream, name = MODELS[model]
    facts = {"started_at": timezone.now() - age, "upstream_id": upstream_id, "upstream_name": upstream}
    return {**facts, "upstream_model": name, "state": State.OK, "source": Source.UPSTREAM, "ttft_ms": 700, **changes}


def some_records(count: int = 400) -> list[dict[str, Any]]:
    """Give as many of four days, of two teams, with all that can become of them."""
    dice = random.Random(5)  # noqa: S311  (repeatable, and nothing secret)
    found = []
    for _ in range(count):
        state = dice.choice([State.OK, State.OK, State.OK, *(state for state in State if state is not State.OPEN)])
        error = dice.choice(["api_error", "overloaded_error"]) if state == State.UPSTREAM_ERROR else ""
        found.append(
            a_record(
                timedelta(hours=dice.uniform(0, 96)),
                dice.randrange(len(MODELS)),
                team_id=dice.choice([RED, RED + 1]),
                state=state,
                error_type=error,
                source=dice.choice(list(Source)),
                ttft_ms=dice.choice([None, dice.randrange(1, 9000)]),
                notes=dice.choice(NOTES),
            )
        )
    return found


def counted(start: datetime, end: datetime, where: str = "true") -> dict[tuple[str, str], dict[str, Any]]:
    """Count the same from the records, one by one."""
    columns = ("upstream_name", "upstream_model", "state", "source", "error_type", "ttft_ms", "notes")
    found: dict[tuple[str, str], dict[str, Any]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(columns)} FROM usage_usagerecord WHERE started_at >= %s AND started_at < %s AND {where}",
            [start, end],
        )
        rows = [dict(zip(columns, values, strict=True)) for values in cursor.fetchall()]
    for row in rows:
        tally = found.setdefault(
            (row["upstream_name"], row["upstream_model"]),
            {name: Counter() for name in ("states", "types", "notes", "noted")} | {"times": [0] * BUCKETS},
        )
        tally["states"][row["state"]] += 1
        if row["state"] == "upstream_error":
            tally["types"][row["error_type"]] += 1
        if row["ttft_ms"] is not None:
            tally["times"][bisect_left(BOUNDS_MS, row["ttft_ms"])] += 1
        tally["notes"].update(
            note for note in row["notes"] if not note.startswith(("compaction_c", "compaction_s", "compaction_b"))
        )
        if row["state"] == "ok":
            tally["noted"]["estimated"] += row["source"] != "upstream"
            tally["noted"]["mended"] += any(map(is_mended, row["notes"]))
            is_emulated = "tool_emulation" in row["notes"]
            tally["noted"]["emulated"] += is_emulated
            tally["noted"]["repaired"] += is_emulated and bool({*row["notes"]} & {*REPAIRS})
    return found


def check_equal(tally: Tally, expected: dict[str, Any]) -> None:
    assert tally.states == expected["states"]
    assert tally.error_types == expected["types"]
    assert tally.ttft_histogram == expected["times"]
    assert tally.time_ms("ttft_p95_ms") == percentile_ms(expected["times"], 0.95)
    noted = {name: getattr(tally, name) for name in ("estimated", "mended", "emulated", "repaired")}
    assert noted == {name: expected["noted"][name] for name in noted}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("scope", "asked", "where"),
    [
        (ALL, {}, "true"),
        (Scope(team_ids=(RED,)), {}, f"team_id = {RED}"),
        (ALL, {"upstream": "90007", "model": "kimi-3"}, "upstream_id = 90007 AND upstream_model = 'kimi-3'"),
    ],
)
def test_the_numbers_are_those_of_the_records(scope: Scope, asked: dict[str, str], where: str) -> None:
    keep(*some_records())
    end, midnight = next_hour(), day_start(timezone.now().date() + timedelta(days=1))

    for start, until in ((end - 24 * HOUR, end), (midnight - 48 * HOUR, midnight)):
        question = Question(start=start, end=until, scope=scope, keep=asked)
        found = answers(question, limit=10)

        now, before = counted(start, until, where), counted(time_before(question), start, where)
        assert {(one.upstream, one.model) for one in found} == now.keys()
        assert [one.now.attempts for one in found] == sorted((one.now.attempts for one in found), reverse=True)
        for one in found:
            check_equal(one.now, now[one.upstream, one.model])
            check_equal(one.before, before[one.upstream, one.model])
            assert +one.notes == now[one.upstream, one.model]["notes"]


@pytest.mark.django_db
def test_the_least_used_are_left_out() -> None:
    keep(*[a_record(model=model) for model in (0, 1, 1, 2, 2, 2)])

    found = answers(Question(start=next_hour() - 24 * HOUR, end=next_hour(), scope=ALL), limit=2)

    assert [(one.upstream_id, one.model, one.now.attempts) for one in found] == [
        (90008, "glm-5", 3),
        (90007, "kimi-3", 2),
    ]


@pytest.mark.django_db
def test_what_records_that_are_gone_would_tell_is_unknown() -> None:
    keep(a_record(200 * HOUR), a_record(40 * HOUR), a_record(30 * HOUR), a_record())
    UsageRecord.objects.filter(started_at__lt=timezone.now() - 35 * HOUR).delete()

    (found,) = answers(Question(start=next_hour() - 24 * HOUR, end=next_hour(), scope=ALL), limit=9)

    assert (found.now.answered, found.before.answered) == (1, 2)
    assert (found.now.mended, found.before.mended, found.before.share("mended")) == (0, None, None)
    UsageRecord.objects.all().delete()
    (found,) = answers(Question(start=next_hour() - 24 * HOUR, end=next_hour(), scope=ALL), limit=9)
    assert (found.now.answered, found.now.mended) == (1, None)


def test_shares_are_of_what_the_upstream_ended() -> None:
    states = {"ok": 6, "truncated": 1, "timeout": 1, "upstream_error": 2, "client_gone": 50, "refused": 9, "lost": 3}
    tally = Tally(states=Counter(states), mended=3, emulated=0)

    assert [tally.share(name) for name in ("answered", "truncated", "timeout", "errors")] == [0.6, 0.1, 0.1, 0.2]
    assert (tally.share("mended"), tally.share("repaired"), Tally().share("answered")) == (0.5, None, None)


@pytest.mark.parametrize(
    ("now", "before", "change"),
    [
        ((900, 1000), (980, 1000), -0.08),
        ((98, 100), (99, 100), None),
        ((10, 19), (900, 1000), None),
        ((1000, 1000), (1000, 1000), None),
        ((0, 0), (5, 30), None),
    ],
)
def test_a_change_that_may_be_chance_is_not_told(
    now: tuple[int, int], before: tuple[int, int], change: float | None
) -> None:
    def tally(good: int, all_: int) -> Tally:
        return Tally(states=Counter({"ok": good, "timeout": all_ - good}))

    fared = Fared(upstream_id=1, upstream="u", model="m", now=tally(*now), before=tally(*before))

    assert fared.change("answered") == (None if change is None else pytest.approx(change))


def test_a_change_of_times_is_told_from_a_tenth_on() -> None:
    def fared(now: int, before: int, count: int = 60) -> Fared:
        times = [[count * (place == at) for place in range(BUCKETS)] for at in (now, before)]
        tallies = [Tally(ttft_histogram=histogram) for histogram in times]
        return Fared(upstream_id=1, upstream="u", model="m", now=tallies[0], before=tallies[1])

    assert (fared(12, 10).time_change("ttft_p50_ms") or 0) > 0.5
    assert fared(10, 10).time_change("ttft_p50_ms") is None
    assert fared(12, 10, count=20).time_change("ttft_p50_ms") is None


def test_each_repair_is_a_fault_of_the_answer() -> None:
    assert all(map(is_mended, [*REPAIRS, "clamped_output"]))
    assert not any(map(is_mended, ADAPTED))
    assert len(WORDS) == len(MENDED) + len(ADAPTED) + len(OTHER)


@pytest.fixture
def noted(dsn: str, tmp_path: Path) -> None:
    """Team red's requests to two models, as the ledger's own writer stores them."""
    red = {"team_id": RED, "team_name": "red", "upstream_model": "kimi-3"}
    settle(
        dsn,
        tmp_path,
        *[(red, {"notes": ("tool_emulation",)})] * 3,
        (red, {"notes": ("tool_emulation", "tool_json_loose", "tool_name_mended")}),
        (red, {"state": State.UPSTREAM_ERROR, "error_type": "overloaded_error", "notes": ("media_omitted",)}),
        ({"team_id": RED + 1, "upstream_model": HOSTILE}, {"notes": ("tool_json_loose",)}),
    )


def test_the_page_says_it_and_leads_to_the_records(noted: None) -> None:
    dora = as_(a_supporter("dora"))

    whole = dora.get(PAGE)
    narrow = dora.get(PAGE, {"upstream": 7, "model": "kimi-3"})

    assert whole.context["lines"][0].fared.model == "kimi-3"
    assert "<img" not in whole.content.decode()
    (line,) = narrow.context["lines"]
    texts = [cell.text for cell in line.cells]
    assert texts[:4] + texts[6:] == ["80.0 %", "0.0 %", "0.0 %", "20.0 %", "0.0 %", "25.0 %", "25.0 %"]
    assert all(text.endswith(" ms") for text in texts[4:6])
    assert line.errors == "overloaded error 1"
    assert "tools were described in the prompt" in narrow.content.decode()
    counts = [one for _, group in narrow.context["notes"] for one in group] + narrow.context["one"]["states"]
    assert sorted(one.count for one in counts) == [1, 1, 1, 1, 4, 4]
    for one in counts:
        assert dora.get(one.link).context["cl"].result_count == one.count, one
    assert dora.get(narrow.context["one"]["errors"][0].link).context["whole"]["errors"] == 1


def test_a_lead_sees_the_own_team_and_a_stranger_nothing(noted: None) -> None:
    red, blue = as_(a_lead("alice", "red", team_id=RED)), as_(a_lead("charlie", "blue", team_id=RED + 7))

    own, none = red.get(PAGE), blue.get(PAGE)

    assert [line.fared.model for line in own.context["lines"]] == ["kimi-3"]
    assert none.context["lines"] == []
    assert b"No attempts in this time." in none.content
    assert b"kimi-3" not in none.content
    assert orjson.loads(blue.get("/usage/api/answers").content)["rows"] == []


def test_the_list_is_filtered_by_a_note_and_an_upstream(noted: None) -> None:
    dora = as_(a_supporter("dora"))

    def found(**words: object) -> int:
        return int(dora.get(LIST, words).context["cl"].result_count)

    assert [found(note="tool_json_loose"), found(note="tool_json_loose", model="kimi-3"), found(note="odd")] == [
        2,
        1,
        0,
    ]
    assert [found(upstream=7), found(upstream=8)] == [6, 0]
    assert [found(note="\x00"), found(model="\x00"), found(upstream="x"), found(user="9" * 30)] == [0, 0, 0, 0]
    page = dora.get(LIST, {"note": "tool_json_loose"}).content.decode()
    assert "format=csv" not in page
    assert "upstream=7" in dora.get(LIST, {"upstream": 7}).content.decode().replace("&amp;", "&")


def test_the_export_has_all_and_no_formula(dsn: str, tmp_path: Path) -> None:
    settle(dsn, tmp_path, ({"upstream_model": "=1+1"}, {"notes": ("media_omitted",)}), ({}, {"state": "timeout"}))
    page = as_(a_supporter("dora")).get(PAGE)
    (csv_link, json_link) = (link for _, link in page.context["exports"])

    file = as_(User.objects.get(username="dora")).get(csv_link)
    rows = list(csv.DictReader(io.StringIO(file.content.decode(), newline="")))

    assert file["content-disposition"] == 'attachment; filename="answers.csv"'
    assert {row["model"] for row in rows} == {"'=1+1", "glm-5"}
    assert {row["notes"] for row in rows} == {"media_omitted=1", ""}
    told = orjson.loads(as_(User.objects.get(username="dora")).get(json_link).content)
    assert {row["model"]: row["answered_share"] for row in told["rows"]} == {"=1+1": 1.0, "glm-5": 0.0}
    assert told["truncated"] is False


def test_a_token_reads_answers_with_the_scope_only(noted: None) -> None:
    alice = a_lead("alice", "red", team_id=RED)
    _, reads = issue_token(alice, "reader", scopes=["usage:read"])
    _, plain = issue_token(alice, "plain")
    client = as_(User.objects.create_user("bob"))
    client.logout()

    def get(token: str) -> Any:
        return client.get("/usage/api/answers", headers={"x-api-key": token})

    assert [get("").status_code, get(plain).status_code] == [401, 403]
    (row,) = orjson.loads(get(reads).content)["rows"]
    assert (row["model"], row["attempts"], row["repaired"], row["notes"]["tool_json_loose"]) == ("kimi-3", 5, 1, 1)
    assert row.keys() == as_row(Fared(upstream_id=1, upstream="", model="")).keys()


@pytest.mark.parametrize(
    "words",
    [{"from": "yesterday"}, {"from": "2026-01-01", "to": "2026-02-01"}, {"from": "2026-02-01", "to": "2026-01-01"},
     {"upstream": "x"}, {"upstream": "9" * 30}],
)  # fmt: skip
def test_odd_words_are_refused(dsn: str, words: dict[str, str]) -> None:
    root = as_(User.objects.create_superuser("root"))

    page = root.get(PAGE, words)

    assert page.status_code == 400
    assert page.context["error"]
    assert root.get("/usage/api/answers", words).status_code == 400


def test_a_month_is_answered(dsn: str) -> None:
    page = as_(User.objects.create_superuser("root")).get(
        PAGE, {"from": "2026-01-01", "to": "2026-01-31", "model": "\x00"}
    )

    assert page.status_code == 200
    assert "2026-01-01 to 2026-01-31, UTC" in page.content.decode()


def test_the_page_needs_few_queries(noted: None) -> None:
    client = as_(User.objects.create_superuser("root"))

    with CaptureQueriesContext(connection) as queries:
        client.get(PAGE)

    assert len(queries) < 12


def test_the_widest_record_fits_the_index(dsn: str, tmp_path: Path, query: Callable[..., list[dict[str, Any]]]) -> None:
    dice = random.Random(1)  # noqa: S311  (only so that nothing can be compressed)
    wide = "".join(chr(dice.randrange(0x1F300, 0x1FAFF)) for _ in range(200))
    notes = tuple("".join(chr(dice.randrange(0x21, 0x1FAFF)) for _ in range(64)) for _ in range(20))
    settle(dsn, tmp_path, ({"upstream_model": wide}, {"notes": notes}))

    (row,) = query("SELECT state, upstream_model, notes FROM usage_usagerecord")

    assert (row["state"], row["upstream_model"], len(row["notes"])) == ("ok", wide, 16)
    assert all(note.isascii() for note in row["notes"])


def test_the_list_offers_no_counts_that_read_all_records(noted: None) -> None:
    page = as_(a_supporter("dora")).get(LIST, {"_facets": "True"})

    assert not page.context["cl"].add_facets
    assert "Show counts" not in page.content.decode()
