"""A running answer, piece by piece: what the upstream says, pings while it is silent, an error where it breaks."""

import asyncio
from collections.abc import Callable
from typing import Self

from keys.pool.facts import Kind
from translator.core.errors import ClientError
from translator.faults import judge_fault
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
    """An answer in pieces, for one client. `aclose` must be called, also when no piece was asked for."""

    def __init__(self, run: Run, first: bytes) -> None:
        self._run = run
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
        while True:
            if self._exchange.is_complete:
                await self._end()
                raise StopAsyncIteration
            if self._stopped:
                return await self._break_off(self._stopped, State.TRUNCATED, Kind.CLIENT_GONE)
            try:
                shown = await self._run.read(until=loop.time() + TICK_S)
            except UpstreamFault as fault:
                state, kind, error = judge_fault(fault)
                return await self._break_off(error, state, kind)
            if shown:
                return shown
            if loop.time() >= silent_since + PING_S:
                return self._exchange.ping

    async def _end(self) -> None:
        self._is_done = True
        if self._exchange.error is None:
            await self._run.succeed()
        else:
            state, kind = CUT if self._run.is_cut else FAILED
            await self._run.break_off(self._exchange.error, state, kind)

    async def _break_off(self, error: ClientError, state: State, kind: Kind) -> bytes:
        self._is_done = True
        last = self._exchange.fail(error)
        await self._run.break_off(error, state, kind)
        return last

    async def aclose(self) -> None:
        """Settle and close; a stream that was read to its end has nothing left to do."""
        self._is_done = True
        try:
            if self._exchange.is_complete and not self._stopped:
                await self._end()
            await self._run.leave()
        finally:  # also when the closing itself is cut off: what the request holds of budgets must go back
            while self.when_closed:
                self.when_closed.pop()()
