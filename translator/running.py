"""The calls that a worker has running: how many there may be, and how they are ended before their time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from keys.entries import TokenEntry
from translator import refusals
from translator.core.errors import ClientError
from translator.stream import Stream
from translator.tries import CallFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How many calls a worker makes at once: for everybody together, and for one member."""

    all: int = 2000
    member: int = 500


class RunningCall:
    """One call: an answer that is being waited for, then maybe a stream."""

    def __init__(self, token: TokenEntry, alias: str, *, is_in_scope: bool) -> None:
        self.token = token
        self.alias = alias
        #: Not for a summary by an alias that the operator chose: no scope is asked for then.
        self.is_in_scope = is_in_scope
        self.stream: Stream | None = None
        self._stopped: ClientError | None = None
        self._limit: asyncio.Timeout | None = None

    def stop(self, error: ClientError) -> None:
        """End the call: its client gets `error`, as an answer or at the end of a stream."""
        if self.stream is not None:
            self.stream.stop(error)
            return
        self._stopped = error
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def until_stopped[Reply](self, work: Coroutine[Any, Any, Reply]) -> Reply:
        """Return what the work returns.

        Raises:
            CallFailed: The call was stopped meanwhile.
        """
        try:
            async with asyncio.timeout(None) as self._limit:
                return await work
        except TimeoutError:
            if self._stopped is None:
                raise
            raise CallFailed(self._stopped) from None
        finally:
            self._limit = None


class RunningCalls:
    """All calls of one worker."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._calls: set[RunningCall] = set()
        self._by_member: Counter[int] = Counter()

    def __iter__(self) -> Iterator[RunningCall]:
        return iter(tuple(self._calls))

    def enter(self, token: TokenEntry, alias: str, *, is_in_scope: bool) -> RunningCall:
        """Take a place; `leave` gives it back.

        Raises:
            CallFailed: There is none.
        """
        if len(self._calls) >= self._places.all:
            raise CallFailed(refusals.NO_PLACE)
        if self._by_member[token.user_id] >= self._places.member:
            raise CallFailed(refusals.NO_PLACE_OF_MEMBER)
        call = RunningCall(token, alias, is_in_scope=is_in_scope)
        self._calls.add(call)
        self._by_member[token.user_id] += 1
        return call

    def leave(self, call: RunningCall) -> None:
        """Give a place back; once."""
        self._calls.remove(call)
        self._by_member[call.token.user_id] -= 1
        if not self._by_member[call.token.user_id]:
            del self._by_member[call.token.user_id]

    def stop_each(self, judge: Callable[[RunningCall], ClientError | None]) -> None:
        """Stop the calls that `judge` gives an error for."""
        for call in self:
            if (error := judge(call)) is not None:
                call.stop(error)
