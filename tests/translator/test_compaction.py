"""Who asks for a summary and who waits, with nobody to answer but a function."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import orjson
import pytest

from keys.entries import RouteEntry, Target, TokenEntry
from tests.leaping import leaps
from tests.translator.core.test_compaction import fulfilled, loop
from tests.translator.test_long_history import a_call, a_model
from tests.translator.test_playground import goal
from translator import compaction
from translator.bookkeeping import Caller
from translator.compaction import Compactor
from translator.core.calibration import Calibration
from translator.core.compaction.summaries import Summary
from translator.messages_call import MessagesCall
from translator.refusals import NO_LEDGER
from translator.relay import Answered
from translator.replies import Whole
from translator.summary_call import SummaryCall
from translator.tries import CallFailed
from usage.summaries import SummaryStore, SummaryStoreAway

TOKEN = TokenEntry(
    id=1, name="laptop", user_id=7, user_name="alice", team_id=None, team_name="", scopes=("m",),
    expires_at=datetime(2030, 1, 1, tzinfo=UTC), rpm=5, tpm=None, concurrency=1,
)  # fmt: skip
CALLER = Caller(
    token=TOKEN, request_id="req_1", client_name="claude-cli", client_version="2", session_id="s1", arrived_at=0.0
)
WORDS = orjson.dumps({"content": [{"type": "text", "text": "It was the disk."}]})


class Store:
    """Postgres in a dictionary, or away."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, str], list[Summary]] = {}
        self.reads = 0
        self.is_away = False
        self.claims: set[str] = set()

    async def read(self, user_id: int, conversation: str) -> list[Summary]:
        self.reads += 1
        if self.is_away:
            raise SummaryStoreAway
        return list(self.rows.get((user_id, conversation), ()))

    async def write(self, user_id: int, conversation: str, summary: Summary, *, written_by: str) -> None:
        if self.is_away:
            raise SummaryStoreAway
        self.rows.setdefault((user_id, conversation), []).insert(0, summary)
        del self.rows[user_id, conversation][4:]

    async def claim(self, conversation: str) -> bool:
        if self.is_away:
            raise SummaryStoreAway
        is_free = conversation not in self.claims
        self.claims.add(conversation)
        return is_free

    async def release(self, conversation: str) -> None:
        if self.is_away:
            raise SummaryStoreAway
        self.claims.discard(conversation)

    async def close(self) -> None:
        pass


class Desk:
    """A compactor, and what it asks for."""

    def __init__(self, *, body: bytes = WORDS, wait_s: float = 60, store: Store | None = None) -> None:
        self.store = store or Store()
        self.asked: list[tuple[SummaryCall, Caller]] = []
        self.body = body
        self.failure: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.compactor = Compactor(
            cast("SummaryStore", self.store),
            calibration=Calibration(),
            answer=cast("Callable[..., Awaitable[Answered]]", self.answer),
            wait_s=wait_s,
        )

    async def answer(self, call: SummaryCall, caller: Caller) -> Answered:
        self.asked.append((call, caller))
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return Answered(reply=Whole(body=self.body), headers={})

    async def turn(self, call: MessagesCall, caller: Caller = CALLER, **facts: Any) -> str:
        """Go as far as the gateway goes before it sends, and say what would be sent."""
        model = a_model(**({"compaction": "summary"} | facts))
        target = Target(upstream=goal().upstream, model_name="m", model=model)
        route = RouteEntry(alias="m", targets=(target,), fallbacks=())
        wish = await self.compactor.consider(call, caller, route)
        if wish is not None:
            await self.compactor.grant(wish, call, caller)
        prepared = call.prepare(replace(goal(), model=model), ())
        return prepared.told.get("bridge-compaction", "").partition(";")[0]


async def written() -> None:
    """Wait for the summaries that are being written, or looked for."""
    async with asyncio.timeout(30):
        while any(task.get_name() == "summary" for task in asyncio.all_tasks()):  # noqa: ASYNC110  (they tell nobody)
            await asyncio.sleep(0)
    await asyncio.sleep(0)  # for what is done once they are over


async def test_nothing_is_asked_or_read_for_what_fits() -> None:
    desk = Desk()

    assert [await desk.turn(a_call(20)), await desk.turn(a_call(), compaction="off", window=None)] == ["", ""]
    assert (desk.asked, desk.store.reads) == ([], 0)


async def test_a_trimmed_call_counts_as_what_is_sent() -> None:
    call = a_call()

    assert await Desk().turn(call, compaction="trim") == "trim"
    assert call.estimate < 3_200 < call.history.whole


async def test_the_summary_is_asked_for_in_the_members_name_and_in_a_request_of_its_own() -> None:
    desk = Desk()

    assert await desk.turn(a_call()) == "summary"

    [(call, caller)] = desk.asked
    assert (call.alias, call.stream, call.prepare(goal(), ()).notes) == ("m", False, ("compaction",))
    assert caller.request_id not in ("req_1", "")
    assert (caller.token.id, caller.token.user_id, caller.session_id, caller.client_name) == (1, 7, "s1", "Bridge")
    assert caller.agent_kind == "compaction"
    assert (caller.token.rpm, caller.token.concurrency, caller.token.scopes) == (5, None, ("m",))


async def test_an_alias_that_the_operator_chose_needs_no_scope() -> None:
    desk = Desk()
    await desk.turn(a_call(), summary_alias="small")

    [(call, caller)] = desk.asked
    assert (call.alias, caller.token.scopes) == ("small", ())


async def test_a_summary_of_a_summary_is_never_asked_for() -> None:
    desk = Desk()
    await desk.turn(a_call())
    [(call, caller)] = desk.asked
    huge = MessagesCall(
        a_call(200).request, size=1, request_id="r", session_id=None, estimate=10**6, headers=(), may_compact=False
    )

    assert call.history.plan(a_model(10, compaction="summary"), 1.0) is None
    assert await desk.compactor.consider(huge, caller, RouteEntry(alias="m", targets=(target(),), fallbacks=())) is None


def target() -> Target:
    return Target(upstream=goal().upstream, model_name="m", model=a_model(compaction="summary"))


async def test_calls_at_once_share_one_task_and_later_ones_its_words() -> None:
    desk = Desk()

    assert await asyncio.gather(*(desk.turn(a_call()) for _ in range(5))) == ["summary"] * 5
    assert await desk.turn(a_call(41)) == "summary"
    assert (len(desk.asked), desk.store.reads) == (1, 2)


@leaps
async def test_who_waited_long_enough_goes_on_and_the_next_turn_gets_it() -> None:
    desk = Desk(wait_s=0.01)
    desk.may_answer.clear()

    assert await desk.turn(a_call()) == "trim"
    desk.may_answer.set()
    await written()

    assert await desk.turn(a_call(41)) == "summary"
    assert len(desk.asked) == 1


@leaps
async def test_while_it_fits_nobody_waits() -> None:
    desk = Desk(wait_s=60)
    desk.may_answer.clear()

    async with asyncio.timeout(30):
        assert [await desk.turn(a_call(27)), await desk.turn(a_call(27))] == ["", ""]
    desk.may_answer.set()
    await written()

    assert (await desk.turn(a_call(28)), len(desk.asked)) == ("summary", 1)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"no json", b'{"content":[{"type":"text","text":"  "}]}'])
async def test_an_answer_without_words_is_no_summary_and_is_not_asked_for_again_at_once(body: bytes) -> None:
    desk = Desk(body=body)

    assert [await desk.turn(a_call()), await desk.turn(a_call(41))] == ["trim", "trim"]
    assert len(desk.asked) == 1


async def test_a_call_that_failed_fails_no_other(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.failure = CallFailed(NO_LEDGER)
    assert await desk.turn(a_call()) == "trim"

    other = Desk()
    other.failure = RuntimeError("a bug")
    assert await other.turn(a_call()) == "trim"

    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "line of a log" not in caplog.text


@leaps
async def test_another_workers_summary_is_found_and_also_a_newer_one() -> None:
    store = Store()
    first, second = Desk(store=store), Desk(store=store)
    assert [await first.turn(a_call()), await second.turn(a_call())] == ["summary", "summary"]
    assert second.asked == []

    grown = next(turns for turns in range(41, 90) if wants_more(first, turns))
    assert await first.turn(a_call(grown)) == "summary"
    await written()
    assert await second.turn(a_call(grown + 1)) == "summary"
    assert (len(first.asked), second.asked) == (2, [])


def wants_more(desk: Desk, turns: int) -> bool:
    call = a_call(turns)
    call.history.use([one for rows in desk.store.rows.values() for one in rows])
    plan = call.history.plan(a_model(compaction="summary"), 1.0)
    return plan is not None and plan.wanted is not None


@leaps
async def test_of_two_workers_one_writes_and_the_other_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LOOK_EVERY_S", 0.01)
    store = Store()
    first, second = Desk(store=store), Desk(store=store)
    first.may_answer.clear()

    turns = asyncio.gather(first.turn(a_call()), second.turn(a_call(41)))
    await asyncio.sleep(0.05)
    first.may_answer.set()

    assert await turns == ["summary", "summary"]
    assert (len(first.asked), second.asked, store.claims) == (1, [], set())


async def test_a_client_that_goes_another_way_again_and_again_always_gets_the_newest() -> None:
    desk = Desk()
    for way in range(12):
        call = a_call(60 - way)
        call.request.messages[2]["content"][0]["content"] = f"way {way}"
        assert await desk.turn(call) == "summary"
    assert len(desk.asked) == 12


@leaps
async def test_where_the_other_worker_fails_the_waiting_one_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "LOOK_EVERY_S", 0.01)
    store = Store()
    first, second = Desk(store=store), Desk(store=store)
    first.failure = CallFailed(NO_LEDGER)
    first.may_answer.clear()

    turns = asyncio.gather(first.turn(a_call()), second.turn(a_call()))
    await asyncio.sleep(0.05)
    first.may_answer.set()

    assert await turns == ["trim", "summary"]


@leaps
async def test_a_summary_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SUMMARY_S", 0.05)
    desk = Desk()
    desk.may_answer.clear()

    assert await desk.turn(a_call()) == "trim"
    assert desk.store.claims == set()
    assert await desk.turn(a_call(41)) == "trim"
    assert len(desk.asked) == 1


async def test_members_and_sessions_have_summaries_of_their_own() -> None:
    desk = Desk()
    charlie = replace(CALLER, token=replace(TOKEN, id=2, user_id=8, user_name="charlie"))
    other = a_call()
    other.session_id = "s2"
    await desk.turn(a_call())
    await desk.turn(a_call(), charlie)
    await desk.turn(other)

    assert len(desk.asked) == 3
    assert {user_id for user_id, _ in desk.store.rows} == {7, 8}


async def test_without_postgres_a_worker_keeps_its_own() -> None:
    desk = Desk()
    desk.store.is_away = True

    assert [await desk.turn(a_call()), await desk.turn(a_call(41))] == ["summary", "summary"]
    assert len(desk.asked) == 1


async def test_conversations_that_nobody_goes_on_with_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    await desk.turn(a_call())
    monkeypatch.setattr(compaction, "CONVERSATIONS_MAX", 1)
    other = a_call()
    other.session_id = "s2"
    await desk.turn(other)
    reads = desk.store.reads

    assert (await desk.turn(a_call()), desk.store.reads - reads, len(desk.asked)) == ("summary", 1, 2)
    monkeypatch.setattr(compaction, "FORGOTTEN_S", 0.0)
    await desk.turn(a_call())
    assert desk.store.reads - reads == 2


@leaps
async def test_a_worker_writes_so_many_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "AT_ONCE_MAX", 1)
    desk = Desk(wait_s=0.01)
    desk.may_answer.clear()
    other = a_call()
    other.session_id = "s2"

    assert [await desk.turn(a_call()), await desk.turn(other)] == ["trim", "trim"]
    assert len(desk.asked) == 1
    await desk.compactor.close()


@leaps
async def test_closing_gives_up_what_is_being_written() -> None:
    desk = Desk(wait_s=0.01)
    desk.may_answer.clear()
    await desk.turn(a_call())

    await desk.compactor.close()

    assert [task for task in asyncio.all_tasks() if task.get_name() == "summary"] == []


def test_what_is_planned_with_known_words_fits() -> None:
    call = a_call()
    plan = call.history.plan(a_model(compaction="summary"), 1.0)
    assert plan is not None
    call.history.use([fulfilled(plan)])
    call.history.expect(call.history.plan(a_model(compaction="summary"), 1.0))

    assert call.estimate < 1_600
    assert len(call.request.messages) == len(loop(40))
