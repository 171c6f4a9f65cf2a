"""The ledger's writer: opens and settles usage records by group commit.

What is queued while one batch is on its way becomes the next one: one statement per kind, one transaction, one
wait for the disk. A settlement never waits for a client and is never given up: what Postgres can't take goes to
the spool, and from there to Postgres when it is back.

* LedgerError
  x LedgerUnavailable   the record isn't in; nothing may be sent upstream
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import psycopg

from usage import statements
from usage.connection import AWAY, LedgerConnection, Statement
from usage.ids import new_record_id
from usage.rows import OpenRecord, Settlement, open_row, settled_row
from usage.spool import Spool
from usage.states import State

__all__ = ["LedgerError", "LedgerUnavailable", "OpenRecord", "RecordWriter", "Settlement", "new_record_id"]

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 0.9
REPLAY_EVERY_S = 1.0
#: How long a settlement waits for an open record to travel with; nobody waits for it.
SETTLE_LINGER_S = 0.01
BATCH_MAX = 500

Row = dict[str, Any]


class LedgerError(Exception):
    """Something about the ledger; `status_hint` is what the client should be told."""

    status_hint = 503


class LedgerUnavailable(LedgerError):
    """The record could not be committed in time. Our fault, and worth another try: see `retry_after_s`."""

    retry_after_s = 1


class _Opening(NamedTuple):
    row: Row
    committed: asyncio.Future[None]


class RecordWriter:
    """Writes the records of one worker over one connection, inside its event loop."""

    def __init__(self, dsn: str, spool_dir: Path, worker_id: str) -> None:
        self.worker_id = worker_id
        self._connection = LedgerConnection(dsn)
        self._spool = Spool(spool_dir, worker_id)
        self._spooled = 0
        self._unspooled: list[Row] = []
        self._opens: deque[_Opening] = deque()
        self._settlements: deque[Row] = deque()
        self._in_flight: list[Row] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    @property
    def is_ready(self) -> bool:
        """Whether new work can be accounted: Postgres answered last time, and the spool's disk has room."""
        return not self._connection.is_away and not self._unspooled

    @property
    def backlog(self) -> int:
        """How many settlements are not in Postgres yet."""
        return len(self._settlements) + len(self._in_flight) + len(self._unspooled) + self._spooled

    async def start(self) -> None:
        """Begin to write. Postgres may be away: then `open` refuses until it is there."""
        adopted = await asyncio.to_thread(self._spool.adopt)
        self._spooled = len(adopted)
        if adopted:
            logger.warning("took over %s settlements of writers that died", len(adopted))
        with suppress(*AWAY):
            await self._connection.connect()
        self._task = asyncio.create_task(self._run(), name="ledger-writer")

    async def close(self) -> None:
        """Write all that is queued, to Postgres or to the spool, and stop."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.shield(self._task)
        await self._connection.close()
        await asyncio.to_thread(self._spool.close)

    async def open(self, record: OpenRecord) -> None:
        """Commit the open record; when this returns, the attempt may be sent.

        Raises:
            LedgerUnavailable: It isn't in within a second, or never can be; nothing may be sent.
        """
        if self._is_closing or self._unspooled:
            msg = "the ledger takes no new records now"
            raise LedgerUnavailable(msg)
        opening = _Opening(open_row(record), asyncio.get_running_loop().create_future())
        self._opens.append(opening)
        self._wake.set()
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await opening.committed
        except (TimeoutError, asyncio.CancelledError) as exc:
            # Not committed yet: the future is cancelled now, and the writer sees to it.
            if _is_committed(opening):
                self._settlements.append(_refusal(opening))
                self._wake.set()
            if isinstance(exc, asyncio.CancelledError):
                raise
            msg = "Postgres didn't answer in time"
            raise LedgerUnavailable(msg) from None

    def settle(self, settlement: Settlement) -> None:
        """Queue the end of an attempt. Never raises, never blocks; the first of several for a record counts."""
        row = settled_row(settlement)
        if self._task is None or self._task.done():
            self._spool_now([row])
            return
        self._settlements.append(row)
        self._wake.set()

    async def _run(self) -> None:
        try:
            while self._has_work or not self._is_closing:
                await self._wait_for_work()
                await self._flush(_taken_opens(self._opens), _taken(self._settlements))
                if self._spooled or self._unspooled:
                    await self._replay()
        finally:
            # Cancelled, or broken: what is still here goes to the disk before the process may end.
            rest = [*self._in_flight, *self._settlements]
            self._settlements.clear()
            _fail(_taken_opens(self._opens, limit=None))
            if rest:
                self._spool_now(rest)

    @property
    def _has_work(self) -> bool:
        return bool(self._opens or self._settlements)

    async def _wait_for_work(self) -> None:
        behind = self._spooled or self._unspooled
        await self._sleep_until(lambda: self._has_work, seconds=REPLAY_EVERY_S if behind else None)
        if self._settlements and not self._opens:
            await self._sleep_until(lambda: bool(self._opens), seconds=SETTLE_LINGER_S)

    async def _sleep_until(self, is_time: Callable[[], bool], *, seconds: float | None) -> None:
        """Sleep until it is time, or the seconds are over, or the writer closes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_time() and not self._is_closing:
                    self._wake.clear()
                    await self._wake.wait()

    async def _flush(self, opens: list[_Opening], settlements: list[Row]) -> None:
        if not opens and not settlements:
            return
        self._in_flight = settlements
        try:
            await self._write(opens, settlements)
        except AWAY as exc:
            logger.warning("Postgres is away, %s settlements go to the spool: %s", len(settlements), exc)
            _fail(opens)
            await self._to_spool([*settlements, *(_refusal(opening) for opening in opens)])
        except psycopg.Error as exc:
            logger.warning("a batch of %s was refused: %s", len(opens) + len(settlements), exc)
            await self._flush_one_by_one(opens, settlements, exc)
        self._in_flight = []

    async def _flush_one_by_one(self, opens: list[_Opening], settlements: list[Row], cause: Exception) -> None:
        """Save a batch from its one bad row."""
        if len(opens) + len(settlements) == 1:
            for row in settlements:
                _log_loss(row, cause)
            _fail(opens)
            return
        for opening in opens:
            await self._flush([opening], [])
        for row in settlements:
            await self._flush([], [row])

    async def _write(self, opens: list[_Opening], settlements: list[Row]) -> None:
        """Commit the batch in one transaction and tell those who wait for their records."""
        group: list[Statement] = []
        if opens:
            group.append((statements.OPEN, [_json([opening.row for opening in opens]), self.worker_id]))
        if settlements:
            ids = [row["id"] for row in settlements]
            group.append((statements.SETTLE, [_json(settlements), min(ids), max(ids)]))
        cursors = await self._connection.run(group)
        missing: set[str] = set()
        if opens and cursors[0].rowcount < len(opens):
            missing = {opening.row["id"] for opening in opens} - {str(row[0]) for row in await cursors[0].fetchall()}
        for opening in opens:
            if opening.committed.done():  # given up while it was on its way
                self._settlements.append(_refusal(opening))
            elif opening.row["id"] in missing:
                _fail([opening])
            else:
                opening.committed.set_result(None)

    async def _replay(self) -> None:
        """Bring the spool's rows to Postgres if it is there."""
        if self._unspooled:
            rows = self._unspooled[:]
            await self._to_spool(rows)
            del self._unspooled[: len(rows)]
        if not self._spooled:
            return
        rows = await asyncio.to_thread(self._spool.rows)
        with suppress(*AWAY):
            for start in range(0, len(rows), BATCH_MAX):
                await self._replay_batch(rows[start : start + BATCH_MAX])
            await asyncio.to_thread(self._spool.clear)
            self._spooled = 0
            logger.warning("%s spooled settlements are in Postgres", len(rows))

    async def _replay_batch(self, rows: list[Row]) -> None:
        try:
            await self._write([], rows)
        except AWAY:
            raise
        except psycopg.Error as exc:
            if len(rows) == 1:
                _log_loss(rows[0], exc)
                return
            for row in rows:
                await self._replay_batch([row])

    async def _to_spool(self, rows: list[Row]) -> None:
        await asyncio.to_thread(self._spool_now, rows)

    def _spool_now(self, rows: list[Row]) -> None:
        try:
            self._spool.append(rows)
        except OSError as exc:
            logger.critical("the spool can't be written, %s settlements are in memory only: %s", len(rows), exc)
            self._unspooled.extend(rows)
        else:
            self._spooled += len(rows)


def _json(rows: list[Row]) -> str:
    return orjson.dumps(rows).decode()


def _taken_opens(queue: deque[_Opening], limit: int | None = BATCH_MAX) -> list[_Opening]:
    return [opening for opening in _taken(queue, limit) if not opening.committed.done()]


def _taken[Item](queue: deque[Item], limit: int | None = BATCH_MAX) -> list[Item]:
    return [queue.popleft() for _ in range(len(queue) if limit is None else min(limit, len(queue)))]


def _fail(opens: list[_Opening]) -> None:
    for opening in opens:
        if not opening.committed.done():
            opening.committed.set_exception(LedgerUnavailable("the record could not be committed"))


def _log_loss(row: Row, cause: Exception) -> None:
    """Say that a row can't be stored at all; cleaning should have made that impossible."""
    logger.error("record %s can't be settled and stays open: %s; %s", row["id"], cause, row)


def _is_committed(opening: _Opening) -> bool:
    future = opening.committed
    return future.done() and not future.cancelled() and future.exception() is None


def _refusal(opening: _Opening) -> Row:
    """Settle a record that may have been committed though nothing was sent."""
    return settled_row(Settlement(id=UUID(opening.row["id"]), state=State.REFUSED, notes=("not_sent",)))
