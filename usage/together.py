"""Limits of client tokens counted in Postgres, for all workers and nodes together.

What is asked for while one round trip is on its way goes along with the next. The tables are unlogged: counting waits
for no disk, and what a crash of Postgres takes along is a minute's count.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import psycopg

from keys.entries import TokenEntry
from keys.tasks import end_task
from usage.connection import LedgerConnection
from usage.limits import (
    REQUESTS,
    STREAMS,
    TOKENS,
    Level,
    Levels,
    LocalCounts,
    Running,
    asked_of,
    level_of,
    streams_level,
)

logger = logging.getLogger(__name__)

#: How long a request waits to be counted.
COUNT_S = 0.9
BATCH_MAX = 500
#: (rows, worker): count them one after the other; see the migration.
COUNT = "SELECT place, is_granted, requests_left, tokens_left, elsewhere FROM usage_count($1::json, $2)"

#: (): forget what dead workers left.
EXPIRE = "DELETE FROM usage_tokenrunning WHERE worker NOT IN (SELECT worker FROM usage_workerlease)"


class Counted(NamedTuple):
    """What is left of a token's minute, and how many of its answers run on other workers."""

    is_granted: bool
    #: None where the token has no such limit.
    requests: float | None
    tokens: float | None
    elsewhere: int


class Ask(NamedTuple):
    row: dict[str, Any]
    #: None for the end of a request, which nobody waits for.
    answer: asyncio.Future[Counted] | None


class SharedCounts:
    """Counts together with the other workers while there are any and Postgres answers; else alone.

    Args:
        worker: This worker's name among the leases. Without a lease its running answers count nowhere else.
        is_alone: Tells whether there is no other worker.
    """

    def __init__(self, dsn: str, worker: str, *, is_alone: Callable[[], bool]) -> None:
        self._connection = LedgerConnection(dsn)
        self._worker = worker
        self._is_alone = is_alone
        self._running = Running()
        self._local = LocalCounts(running=self._running)
        self._asks: list[Ask] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await end_task(self._task)
        await self._connection.close()

    async def take(self, token: TokenEntry, tokens: int) -> Levels:
        if self._is_alone():
            return await self._local.take(token, tokens)
        try:
            return await self._take(token, tokens)
        except (TimeoutError, psycopg.Error, OSError) as exc:
            logger.warning("limits can't be counted together, this worker counts for itself: %s", exc)
            return await self._local.take(token, tokens)

    async def _take(self, token: TokenEntry, tokens: int) -> Levels:
        asked = asked_of(token, tokens)
        _, need = asked.get(TOKENS, (0, 0))
        running = self._running.of(token)
        row = self._row(token, need=need)
        # Whoever asks while this is on its way must count it, or two would get the last place.
        self._running.enter(token)
        counted = None
        try:
            counted = await self._ask(row)
        finally:
            if counted is None or not counted.is_granted:
                self._running.leave(token)
        return _levels(token, asked, counted, running)

    def leave(self, token: TokenEntry, *, held: int, used: int) -> None:
        if self._is_alone():
            self._local.leave(token, held=held, used=used)
        else:
            self._running.leave(token)
        if self._task is not None:  # what was told to others must be taken back, whether or not they are still there
            self._put(Ask(self._row(token, back=min(held, token.tpm or 0) - used), None))

    def _row(self, token: TokenEntry, **amounts: int) -> dict[str, Any]:
        own = None if token.concurrency is None else self._running.of(token)
        limits = {"rpm": token.rpm, "tpm": token.tpm, "streams": token.concurrency}
        return {"token": token.id, **limits, "own": own, **amounts}

    async def _ask(self, row: dict[str, Any]) -> Counted:
        answer: asyncio.Future[Counted] = asyncio.get_running_loop().create_future()
        self._put(Ask(row, answer))
        async with asyncio.timeout(COUNT_S):
            return await answer

    def _put(self, ask: Ask) -> None:
        self._asks.append(ask)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="shared-limits")

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            asks, self._asks = self._asks[:BATCH_MAX], self._asks[BATCH_MAX:]
            if not self._asks:
                self._wake.clear()
            try:
                await self._count(asks)
            except Exception as exc:
                for ask in asks:
                    if ask.answer is not None and not ask.answer.done():
                        ask.answer.set_exception(exc)

    async def _count(self, asks: list[Ask]) -> None:
        rows = [ask.row | {"place": place} for place, ask in enumerate(asks)]
        (cursor,) = await self._connection.run([(COUNT, [orjson.dumps(rows).decode(), self._worker])])
        for place, *counted in await cursor.fetchall():
            answer = asks[place].answer
            if answer is not None and not answer.done():
                answer.set_result(Counted(*counted))


def _levels(token: TokenEntry, asked: dict[str, tuple[int, int]], counted: Counted, running: int) -> Levels:
    levels: dict[str, Level] = {}
    if token.concurrency is not None:
        levels[STREAMS] = streams_level(token.concurrency, running + counted.elsewhere)
    for kind, left in ((REQUESTS, counted.requests), (TOKENS, counted.tokens)):
        if kind in asked and left is not None:
            limit, amount = asked[kind]
            levels[kind] = level_of(limit, left, 0 if counted.is_granted else amount)
    return levels
