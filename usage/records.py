"""The ledger's writer: reserves, opens and settles by group commit.

What is queued while one batch is on its way becomes the next one: one statement per kind, one transaction, one
wait for the disk. A settlement never waits for a client and is never given up: what Postgres can't take goes to
the spool, and from there to Postgres when it is back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import psycopg

from usage import statements
from usage.batch import Asked, Batch, NoRoom, Row, release_row, settle_places
from usage.connection import AWAY, LedgerConnection
from usage.errors import LedgerError, LedgerUnavailable
from usage.ids import new_record_id
from usage.rows import OpenRecord, Settlement, open_row, settled_row
from usage.spool import Spool

__all__ = ["LedgerError", "LedgerUnavailable", "OpenRecord", "RecordWriter", "Settlement", "new_record_id"]

logger = logging.getLogger(__name__)

OPEN_TIMEOUT_S = 0.9
REPLAY_EVERY_S = 1.0
#: How long a settlement waits for an open record to travel with; nobody waits for it.
SETTLE_LINGER_S = 0.01
BATCH_MAX = 500


class RecordWriter:
    """Writes the records of one worker over one connection, inside its event loop."""

    def __init__(self, dsn: str, spool_dir: Path, worker_id: str) -> None:
        #: Must be another one after each start of a process.
        self.worker_id = worker_id
        self._connection = LedgerConnection(dsn)
        self._spool = Spool(spool_dir, worker_id)
        self._spooled = 0
        self._unspooled: list[Row] = []
        self._reservations: deque[Asked] = deque()
        self._opens: deque[Asked] = deque()
        self._ends: deque[Row] = deque()
        self._in_flight: list[Row] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self._looks_for_orphans = False

    @property
    def is_ready(self) -> bool:
        """Whether new work can be accounted: Postgres answered last time, and the spool's disk has room."""
        return not self._connection.is_away and not self._unspooled

    @property
    def backlog(self) -> int:
        """How many settlements are not in Postgres yet."""
        return len(self._ends) + len(self._in_flight) + len(self._unspooled) + self._spooled

    async def start(self) -> None:
        """Begin to write. Postgres may be away: then `open` refuses until it is there."""
        await self._adopt()
        await self._look_for_postgres()
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
        await self._ask(open_row(record), self._opens)

    async def reserve(self, admission: UUID, amounts: Sequence[tuple[int, int]]) -> NoRoom | None:
        """Reserve from several budgets at once; return the one that has no room, else None.

        Args:
            admission: The name that `release` takes.
            amounts: Pairs of a budget's id and the amount in its unit.

        Raises:
            LedgerUnavailable: Nothing is reserved.
        """
        return await self._ask({"admission": str(admission), "amounts": amounts}, self._reservations)

    def settle(self, settlement: Settlement) -> None:
        """Queue the end of an attempt. Never raises, never blocks; the first of several for a record counts."""
        self._end(settled_row(settlement))

    def release(self, admission: UUID) -> None:
        """Queue the release of what an admission still holds. Never raises, never blocks."""
        self._end(release_row(str(admission)))

    def adopt_orphans(self) -> None:
        """Take over the spools of dead writers, soon."""
        self._looks_for_orphans = True
        self._wake.set()

    async def _ask(self, row: Row, queue: deque[Asked]) -> NoRoom | None:
        if self._is_closing or self._unspooled:
            msg = "the ledger takes nothing new now"
            raise LedgerUnavailable(msg)
        asked = Asked(row, asyncio.get_running_loop().create_future())
        queue.append(asked)
        self._wake.set()
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                return await asked.answer
        except (TimeoutError, asyncio.CancelledError) as exc:
            # If it isn't committed yet, its future is cancelled now, and the batch takes it back.
            if asked.is_held:
                self._end(asked.undone())
            if isinstance(exc, asyncio.CancelledError):
                raise
            msg = "Postgres didn't answer in time"
            raise LedgerUnavailable(msg) from None

    def _end(self, row: Row) -> None:
        if self._task is None or self._task.done():
            self._spool_now([row])
            return
        self._ends.append(row)
        self._wake.set()

    async def _run(self) -> None:
        try:
            while self._has_work or not self._is_closing:
                await self._wait_for_work()
                if self._looks_for_orphans:
                    await self._adopt()
                await self._flush(self._next_batch())
                if self._spooled or self._unspooled:
                    await self._replay()
                elif self._connection.is_away:
                    await self._look_for_postgres()
        finally:
            # Cancelled, or broken: what is still here goes to the disk before the process may end.
            waiting = Batch(reservations=list(self._reservations), opens=list(self._opens))
            waiting.fail(was_sent=False)
            if rest := [*self._in_flight, *self._ends]:
                self._spool_now(rest)

    @property
    def _has_work(self) -> bool:
        return bool(self._ends or self._is_asked)

    @property
    def _is_asked(self) -> bool:
        return bool(self._opens or self._reservations)

    async def _wait_for_work(self) -> None:
        behind = self._spooled or self._unspooled or self._connection.is_away
        if not self._looks_for_orphans:
            await self._sleep_until(
                lambda: self._has_work or self._looks_for_orphans, seconds=REPLAY_EVERY_S if behind else None
            )
        if self._ends and not self._is_asked:
            await self._sleep_until(lambda: self._is_asked, seconds=SETTLE_LINGER_S)

    async def _sleep_until(self, is_time: Callable[[], bool], *, seconds: float | None) -> None:
        """Sleep until it is time, or the seconds are over, or the writer closes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_time() and not self._is_closing:
                    self._wake.clear()
                    await self._wake.wait()

    def _next_batch(self) -> Batch:
        return Batch(
            reservations=[asked for asked in _taken(self._reservations) if not asked.answer.done()],
            opens=[asked for asked in _taken(self._opens) if not asked.answer.done()],
            ends=_taken(self._ends),
        )

    async def _flush(self, batch: Batch) -> None:
        for part in batch.transactions():
            self._in_flight = batch.ends
            if part:
                await self._flush_transaction(part)
        self._in_flight = []

    async def _flush_transaction(self, batch: Batch) -> None:
        try:
            await self._write(batch)
        except AWAY as exc:
            rows = batch.fail(was_sent=self._connection.was_sent)
            logger.warning("Postgres can't be written to, %s settlements go to the spool: %s", len(rows), exc)
            if rows:
                await self._to_spool(rows)
        except psycopg.Error as exc:
            if len(batch) == 1:
                _log_loss(batch.fail(was_sent=False), exc)
                return
            logger.warning("a batch of %s was refused, its rows go one by one: %s", len(batch), exc)
            for single in batch.singles():
                await self._flush_transaction(single)

    async def _write(self, batch: Batch) -> None:
        """Commit the batch and answer those who wait."""
        cursors = await self._connection.run(batch.statements(self.worker_id))
        self._ends.extend(await batch.answer(cursors))
        if batch.ends:
            await self._correct_lost(batch.ends, (await cursors[-1].fetchone() or (0,))[0])

    async def _correct_lost(self, ends: list[Row], settled: int) -> None:
        """Settle records that others had given up as lost: this worker was slow, or its spool came late."""
        ids = {row["id"] for row in ends if "id" in row}
        if settled < len(ids):
            await self._connection.run([(statements.REOPEN, [list(ids)]), (statements.SETTLE, settle_places(ends))])

    async def _adopt(self) -> None:
        self._looks_for_orphans = False
        try:
            adopted = await asyncio.to_thread(self._spool.adopt)
        except OSError as exc:
            logger.critical("spools of dead writers can't be taken over: %s", exc)
            return
        self._spooled += len(adopted)
        if adopted:
            logger.warning("took over %s settlements of writers that died", len(adopted))

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
                await self._replay_batch(Batch(ends=rows[start : start + BATCH_MAX]))
            await asyncio.to_thread(self._spool.clear)
            self._spooled = 0
            logger.warning("%s spooled settlements are in Postgres", len(rows))

    async def _replay_batch(self, batch: Batch) -> None:
        try:
            await self._write(batch)
        except AWAY:
            raise
        except psycopg.Error as exc:
            if len(batch) == 1:
                _log_loss(batch.ends, exc)
                return
            for single in batch.singles():
                await self._replay_batch(single)

    async def _look_for_postgres(self) -> None:
        """Connect if Postgres is there: while we aren't ready, nobody may send us anything that would find out."""
        with suppress(*AWAY):
            await self._connection.connect()

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


def _taken[Item](queue: deque[Item]) -> list[Item]:
    return [queue.popleft() for _ in range(min(BATCH_MAX, len(queue)))]


def _log_loss(rows: list[Row], cause: Exception) -> None:
    """Say that a row can't be stored at all; cleaning should have made that impossible."""
    for row in rows:
        logger.error("this can't be settled: %s; %s", cause, row)
