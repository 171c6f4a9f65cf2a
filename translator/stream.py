"""A running answer, piece by piece: what the upstream says, pings while it is silent, an error where it breaks."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Self

from keys.pool.facts import Kind
from translator.core.errors import ClientError
from translator.faults import judge_fault
from translator.replies import Begun, Whole
from translator.rounds import Rounds
from translator.run import Run
from translator.upstream import UpstreamFault
from usage.states import State

#: A silent stream gets a ping this often, in seconds. Clients warn after 20 s and give up after minutes.
PING_S = 10.0
#: How soon a silent stream notices that it is to stop, in seconds.
TICK_S = 2.0
#: An answer that broke off, and one that holds an error: for the record and for the pool.
CUT = (State.TRUNCATED, Kind.TRUNCATED)
FAILED = (State.UPSTREAM_ERROR, Kind.BAD_ANSWER)


class Stream:
    """An answer in pieces, for one client. `aclose` must be called, also when no piece was asked for.

    Args:
        run: The attempt that has begun to answer.
        first: What the client gets of it at once.
        rounds: How the upstream is asked to go on; None where it isn't.
    """

    def __init__(self, run: Run, first: bytes, rounds: Rounds | None = None) -> None:
        self._run = run
        self._rounds = rounds
        #: The next round, while nothing of it is there yet.
        self._starting: asyncio.Task[Whole | Begun | None] | None = None
        self._is_later = False
        self._exchange = run.prepared.exchange
        self._first = first
        self._stopped: ClientError | None = None
        self._is_done = False
        #: Called once each, when the stream is over.
        self.when_closed: list[Callable[[], None]] = []

    @property
    def has_ended_well(self) -> bool:
        """Whether the client was told a whole answer."""
        return self._exchange.is_complete and self._exchange.error is None and not self._stopped

    def stop(self, error: ClientError) -> None:
        """End the stream with `error` at the next piece."""
        self._stopped = error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._is_done:
            raise StopAsyncIteration
        loop = asyncio.get_running_loop()
        silent_since = loop.time()
        read = partial(self._read_rounds, self._rounds) if self._rounds else self._run.read
        while True:
            if self._exchange.is_complete:
                await self._end()
                raise StopAsyncIteration
            if self._stopped:
                return await self._break_off(self._stopped, State.TRUNCATED, Kind.CLIENT_GONE)
            try:
                shown = await read(until=loop.time() + TICK_S)
            except UpstreamFault as fault:
                state, kind, error = judge_fault(fault)
                return await self._break_off(error, state, kind)
            if shown:
                return shown
            if loop.time() >= silent_since + PING_S:
                return self._exchange.ping

    async def _read_rounds(self, rounds: Rounds, *, until: float) -> bytes:
        """Read from the round that is on; from one to the next where it ends short."""
        if self._starting is not None or self._exchange.wants_more:
            return await self._go_on(rounds)
        shown = await self._run.read(until=until)
        if self._is_later and (error := self._exchange.error) is not None and not self._exchange.is_complete:
            await self._run.break_off(error, *(CUT if self._run.is_cut else FAILED))
            return shown + self._exchange.give_up()
        return shown

    async def _go_on(self, rounds: Rounds) -> bytes:
        """Begin the next round, or wait a little for it; where there is none, end with what there is."""
        if self._starting is None:
            await self._run.succeed()
            self._starting = asyncio.create_task(rounds.next(), name="next round")
        await asyncio.wait([self._starting], timeout=TICK_S)
        if not self._starting.done():
            return b""
        reply, self._starting = self._starting.result(), None
        if not isinstance(reply, Begun):
            return self._exchange.give_up()
        self._run, self._is_later = rounds.last, True
        return reply.first

    async def _leave_start(self) -> None:
        """Leave a round that has just begun; what there is of it is settled with the rest."""
        starting, self._starting = self._starting, None
        if starting is None or self._rounds is None:
            return
        self._rounds.last.stopped_by = self._stopped
        starting.cancel()
        await asyncio.wait([starting])
        self._run = self._rounds.last

    async def _end(self) -> None:
        self._is_done = True
        if self._exchange.error is None:
            await self._run.succeed()
        else:
            state, kind = CUT if self._run.is_cut else FAILED
            await self._run.break_off(self._exchange.error, state, kind)

    async def _break_off(self, error: ClientError, state: State, kind: Kind) -> bytes:
        self._is_done = True
        await self._leave_start()
        if self._is_later and not self._stopped:
            await self._run.break_off(error, state, kind)
            return self._exchange.give_up()
        last = self._exchange.fail(error)
        await self._run.break_off(error, state, kind)
        return last

    async def aclose(self) -> None:
        """Settle and close; a stream that was read to its end has nothing left to do."""
        self._is_done = True
        try:
            await self._leave_start()
            if (self._exchange.is_complete or self._exchange.wants_more) and not self._stopped:
                await self._end()
            await self._run.leave()
        finally:  # also when the closing itself is cut off: what the request holds of budgets must go back
            while self.when_closed:
                self.when_closed.pop()()
