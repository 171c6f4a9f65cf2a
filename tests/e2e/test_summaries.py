"""Summaries of long histories through whole gateways: when they are written, who gets them, who pays."""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import httpx
import pytest

from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.test_compaction import SAYS, ask, history, sent, set_compaction
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream

#: The alias that writes the summaries; its answers are scripted.
WRITER = "writer"
#: So many turns fit in the window but not under the limit, and so many don't fit at all.
LONG, TOO_LONG = 19, 40
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def running(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(upstream=upstream_process, prepare=sum_up, BRIDGE_SUMMARY_WAIT_S="60")


def sum_up(made: RunningGateway) -> None:
    set_compaction(made, "summary", summaries_by=WRITER)


@pytest.fixture
def summing(running: RunningGateway, upstream: ScriptedUpstream) -> Iterator[RunningGateway]:
    """A gateway whose members have no summaries yet: each test has a session of its own."""
    upstream.script("text=It+was+the+disk.", model=WRITER)
    running.execute("DELETE FROM usage_conversationsummary")
    yield running
    # A summary that nobody waits for must not reach into the next test.
    time.sleep(0.2)
    locks = "SELECT FROM pg_locks JOIN pg_database d ON d.oid = database WHERE locktype = 'advisory' AND datname = %s"
    until(lambda: not running.sql(locks, running.database), within_s=60)
    upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)
    running.settled()


class Talk(Protocol):
    def __call__(self, turns: int, *, token: str = "", words: str = ..., **headers: str) -> httpx.Response: ...


@pytest.fixture
def talk(summing: RunningGateway) -> Talk:
    """Send the history of so many turns, in a session that no other test knows."""
    session = f"s{next(NUMBERS)}"

    def turn(turns: int, *, token: str = "", words: str = "line of a log, ", **headers: str) -> httpx.Response:
        return ask(summing, history(turns, words=words), token=token, session=session, **headers)

    return turn


def written(gateway: RunningGateway, count: int) -> list[dict[str, Any]]:
    """Wait until so many summaries are kept, and give them."""
    give_up = time.monotonic() + 60
    while len(rows := gateway.sql("SELECT * FROM usage_conversationsummary ORDER BY made_at")) < count:
        assert time.monotonic() < give_up, f"{len(rows)} summaries: {gateway.log()[-2000:]}"
        time.sleep(0.05)
    return rows


def told(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.headers.get("bridge-compaction", "")).partition(";")[0]


def test_a_summary_stands_for_old_messages_and_the_next_turns_begin_alike(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    answers = [talk(TOO_LONG + turn) for turn in range(4)]

    assert [told(answer) for answer in answers] == ["summary"] * 4
    seen = sent(upstream)
    assert "<summary>\nIt was the disk.\n</summary>" in seen[0][0]["content"]
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(seen))
    [asked] = sent(upstream, WRITER)
    assert "assistant: [calls Read" in asked[1]["content"]
    records = assert_ledger_adds_up(summing, upstream)
    [paid] = [record for record in records if "compaction" in record["notes"]]
    assert (paid["user_name"], paid["session_id"], paid["client_name"]) == ("alice", records[0]["session_id"], "Bridge")
    assert paid["request_id"] not in {answer.headers["request-id"] for answer in answers}
    assert [record["notes"][0] for record in records if record is not paid] == ["compaction_summary"] * 4


def test_nobody_waits_while_the_history_still_fits(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    upstream.script("text=It+was+the+disk.,wait=1s", model=WRITER)
    first = talk(LONG)
    written(summing, 1)

    assert told(first) == "", "it would have been told the summary if it had waited"
    assert told(talk(LONG + 1)) == "summary"


def test_a_late_summary_serves_the_next_turn(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    upstream.script("text=Late.,wait=1s", model=WRITER)
    hasty = gateway(upstream=upstream, prepare=sum_up, BRIDGE_SUMMARY_WAIT_S="0")

    first = ask(hasty, history(TOO_LONG))
    written(hasty, 1)
    second = ask(hasty, history(TOO_LONG + 1))

    assert (told(first), told(second)) == ("trim", "summary")
    assert "Late." in sent(upstream)[1][0]["content"]
    assert len(sent(upstream, WRITER)) == 1
    assert_ledger_adds_up(hasty, upstream)


def test_a_grown_conversation_is_summed_up_from_its_last_summary(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    for turns in range(TOO_LONG, TOO_LONG + 24, 4):
        assert told(talk(turns)) == "summary"
    written(summing, 2)

    first, second = sent(upstream, WRITER)[:2]
    assert "<summary>" not in first[1]["content"]
    assert "<summary>\nIt was the disk.\n</summary>" in second[1]["content"]
    assert "Find the fault." not in second[1]["content"]


def test_a_summary_that_fails_fails_nothing_else(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    upstream.script("status=400,message=no", model=WRITER)

    assert [told(talk(TOO_LONG + turn)) for turn in range(3)] == ["trim"] * 3
    assert len(sent(upstream, WRITER)) == 1, "after a failure there is a pause"
    assert_ledger_adds_up(summing, upstream)


def test_workers_and_a_restart_share_what_was_written(gateway: MakeGateway, upstream: ScriptedUpstream) -> None:
    upstream.script("text=It+was+the+disk.", model=WRITER)
    running = gateway(upstream=upstream, workers=2, prepare=sum_up, BRIDGE_SUMMARY_WAIT_S="60")

    with ThreadPoolExecutor() as threads:
        while len({record["worker"] for record in running.settled()}) < 2:
            answers = threads.map(lambda _: told(ask(running, history(TOO_LONG))), range(8))
            assert list(answers) == ["summary"] * 8
    running.stop()
    running.start()

    assert told(ask(running, history(TOO_LONG))) == "summary"
    assert len(sent(upstream, WRITER)) == 1


def test_charlie_gets_nothing_of_alices_summary_in_a_session_of_the_same_name(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    charlie = summing.issue_token("charlie")
    upstream.script("text=For+Alice.", model=WRITER)
    assert told(talk(TOO_LONG)) == "summary"
    upstream.script("text=For+Charlie.", model=WRITER)
    assert told(talk(TOO_LONG, token=charlie)) == "summary"

    for_alice, for_charlie = [messages[0]["content"] for messages in sent(upstream)]
    assert "For Alice." in for_alice
    assert "For Charlie." in for_charlie
    assert "Alice" not in for_charlie
    rows = written(summing, 2)
    assert len({row["user_id"] for row in rows}) == 2
    assert not any("Alice" in str(value) or "Charlie" in str(value) for row in rows for value in row.values())
    assert "For Alice" not in summing.log()


def test_another_history_in_the_same_session_gets_a_summary_of_its_own(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    talk(TOO_LONG)
    talk(TOO_LONG, words="another log, ")

    assert len(sent(upstream, WRITER)) == 2


def test_a_client_that_asks_for_its_own_messages_has_no_summary_written(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    refused = talk(TOO_LONG, **{"bridge-compaction": "off"})

    assert refused.status_code == 400
    assert upstream.requests() == []


def test_a_token_of_one_call_at_once_is_not_kept_out_by_its_summary(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    upstream.script("text=Late.,wait=3s", model=WRITER)
    summing.execute("UPDATE keys_clienttoken SET concurrency = 1, rpm = 1000")
    summing.wait_until_known()

    try:
        answers = [talk(LONG + turn) for turn in range(3)]
    finally:
        summing.execute("UPDATE keys_clienttoken SET concurrency = NULL, rpm = NULL")
        summing.wait_until_known()
    assert [answer.status_code for answer in answers] == [200] * 3
    assert SAYS in {request["body"]["model"] for request in upstream.requests()}


def test_the_member_reads_what_stands_for_the_old_messages_and_nobody_else_does(
    summing: RunningGateway, talk: Talk
) -> None:
    receipt = talk(TOO_LONG).headers["bridge-compaction"].rpartition("receipt=")[2]

    def look(token: str) -> httpx.Response:
        return httpx.get(f"{summing.base_url}{receipt}", headers={"x-api-key": token}, trust_env=False, timeout=60)

    written(summing, 1)
    seen = look(summing.token).json()
    assert (seen["text"], seen["written_by"]) == ("It was the disk.", WRITER)
    assert receipt == f"/v1/summaries/{seen['request_id']}"
    assert look(summing.issue_token("charlie")).status_code == 404
    [paid] = [one for one in summing.settled() if one["request_id"] == seen["request_id"]]
    assert paid["notes"] == ["compaction"]


def test_calls_of_one_conversation_share_its_summary(
    summing: RunningGateway, upstream: ScriptedUpstream, talk: Talk
) -> None:
    upstream.script("text=It+was+the+disk.,wait=1s", model=WRITER)
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(talk, [TOO_LONG] * 4))

    assert [told(answer) for answer in answers] == ["summary"] * 4
    assert len(sent(upstream, WRITER)) == 1


def test_a_summary_that_the_limits_forbid_leaves_the_call_alone(
    summing: RunningGateway, upstream: ScriptedUpstream
) -> None:
    token = summing.issue_token("dora")
    summing.execute("UPDATE keys_clienttoken SET rpm = 1 WHERE user_id = (SELECT max(id) FROM auth_user)")
    summing.wait_until_known()

    answer = ask(summing, history(TOO_LONG), token=token)

    assert told(answer) == "trim"
    assert sent(upstream, WRITER) == []
