"""A stream to a client, with a run that is played."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.leaping import leaps
from translator import refusals
from translator.core.errors import ClientError
from translator.replies import Begun
from translator.rounds import Rounds
from translator.run import Run
from translator.stream import Stream
from translator.upstream import UpstreamBroke


class StuckRun:
    """A run whose connection to the upstream never closes."""

    prepared = SimpleNamespace(exchange=SimpleNamespace(is_complete=False, wants_more=False, error=None))

    async def leave(self) -> None:
        await asyncio.Event().wait()


async def test_a_stream_whose_closing_is_cut_off_still_lets_go_of_what_it_held() -> None:
    stream = Stream(cast("Run", StuckRun()), b"")
    let_go: list[Any] = []
    stream.when_closed.append(lambda: let_go.append("budgets"))
    closing = asyncio.create_task(stream.aclose())
    await asyncio.sleep(0)

    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing

    assert let_go == ["budgets"]


class PlayedExchange:
    """An answer that wants more until `is_complete` is set."""

    ping = b"ping"
    error: ClientError | None = None
    is_complete = False
    wants_more = True

    def give_up(self) -> bytes:
        self.is_complete, self.wants_more = True, False
        return b"the end"

    def fail(self, _error: ClientError) -> bytes:
        self.is_complete, self.wants_more = True, False
        return b"an error"


class PlayedRun:
    """A run that notes what becomes of it."""

    is_cut = False
    stopped_by: ClientError | None = None

    def __init__(self, exchange: PlayedExchange) -> None:
        self.prepared = SimpleNamespace(exchange=exchange)
        self.ends: list[str] = []

    async def succeed(self) -> None:
        self.ends.append("ok")

    async def break_off(self, *_: Any) -> None:
        self.ends.append("broken off")

    async def leave(self) -> None:
        self.ends.append("left")


class PlayedRounds:
    """Rounds of which the next begins when `may_begin` is set."""

    def __init__(self, run: PlayedRun, reply: Begun | None) -> None:
        self.last = run
        self.may_begin = asyncio.Event()
        self._reply = reply

    async def next(self) -> Begun | None:
        await self.may_begin.wait()
        return self._reply


def played(reply: Begun | None = None) -> tuple[Stream, PlayedRun, PlayedRounds]:
    run = PlayedRun(PlayedExchange())
    rounds = PlayedRounds(run, reply)
    return Stream(cast("Run", run), b"", cast("Rounds", rounds)), run, rounds


@leaps
async def test_pings_come_while_the_next_round_is_awaited() -> None:
    stream, run, rounds = played()

    assert [await anext(stream), await anext(stream)] == [b"ping", b"ping"]
    rounds.may_begin.set()
    assert await anext(stream) == b"the end"
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    await stream.aclose()

    assert run.ends == ["ok", "ok", "ok", "left"]  # only the first counts
    assert stream.has_ended_well


@leaps
async def test_a_stream_that_is_stopped_while_a_round_begins_ends_with_an_error() -> None:
    stream, run, _ = played()
    assert await anext(stream) == b"ping"

    stream.stop(refusals.SHUT_DOWN)

    assert await anext(stream) == b"an error"
    assert run.stopped_by == refusals.SHUT_DOWN
    assert run.ends == ["ok", "broken off"]
    assert not stream.has_ended_well


@leaps
async def test_a_round_that_begins_is_left_with_the_client() -> None:
    stream, run, rounds = played()
    assert await anext(stream) == b"ping"
    begun = PlayedRun(run.prepared.exchange)
    rounds.last = begun
    run.prepared.exchange.wants_more = False

    await stream.aclose()

    assert (run.ends, begun.ends) == (["ok"], ["left"])


@leaps
async def test_what_goes_wrong_after_good_rounds_ends_the_answer_with_what_there_is() -> None:
    stream, run, rounds = played(Begun(first=b"more"))
    rounds.may_begin.set()
    assert await anext(stream) == b"more"
    run.prepared.exchange.wants_more = False

    async def read(*, until: float) -> bytes:
        raise UpstreamBroke(str(until))

    run.read = read  # type: ignore[attr-defined]
    assert await anext(stream) == b"the end"

    assert run.ends == ["ok", "broken off"]
    assert stream.has_ended_well
