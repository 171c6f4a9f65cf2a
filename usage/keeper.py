"""What each worker does for the ledger beside its requests: beat, watch the others, read budgets, warn."""

import asyncio
import logging
from contextlib import suppress

import psycopg
from asgiref.sync import sync_to_async
from django.db import connection as django_connection
from django.utils import timezone

from keys.tasks import end_task
from usage.alerts import warn_of_budgets
from usage.budgets import BudgetBook
from usage.connection import AWAY, LedgerConnection
from usage.idempotency import EXPIRE
from usage.leases import LOOK_EVERY_S, Watch, beat_and_look, close_as_lost, leave
from usage.partitions import make_partitions
from usage.records import RecordWriter
from usage.summaries import EXPIRE as EXPIRE_SUMMARIES
from usage.together import EXPIRE as EXPIRE_RUNNING

logger = logging.getLogger(__name__)

READ_EVERY_S = 2.0
PARTITIONS_EVERY_S = 6 * 60 * 60.0


class Keeper:
    """The upkeep of the ledger by one worker: one task, one connection."""

    def __init__(self, dsn: str, writer: RecordWriter, book: BudgetBook) -> None:
        self._connection = LedgerConnection(dsn)
        self._writer = writer
        self._book = book
        self._watch = Watch()
        self._task: asyncio.Task[None] | None = None
        self._next_look_s = 0.0
        self._next_partitions_s = 0.0

    @property
    def is_alone(self) -> bool:
        """Whether no other worker lives, as far as is known."""
        return self._watch.is_alone

    async def start(self) -> None:
        """Beat and read once, then go on in a task. Postgres may be away."""
        await self._round()
        self._task = asyncio.create_task(self._run(), name="ledger-keeper")

    async def close(self) -> None:
        """Stop, and take the lease away if nothing is left open."""
        await end_task(self._task)
        with suppress(psycopg.Error, *AWAY):
            if not self._writer.backlog:
                await leave(self._connection, self._writer.worker_id)
        await self._connection.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(READ_EVERY_S)
            await self._round()

    async def _round(self) -> None:
        try:
            now_s = asyncio.get_running_loop().time()
            if now_s >= self._next_look_s:
                await self._look()
                self._next_look_s = now_s + LOOK_EVERY_S
            await self._book.read(self._connection)
            await warn_of_budgets(self._connection, self._book)
            if now_s >= self._next_partitions_s:
                self._next_partitions_s = now_s + PARTITIONS_EVERY_S
                await _make_partitions()
                await self._connection.run([(EXPIRE, []), (EXPIRE_SUMMARIES, []), (EXPIRE_RUNNING, [])])
        except AWAY as exc:
            logger.warning("the ledger's upkeep waits for Postgres: %s", exc)
        except Exception:  # without its beat this worker would count as dead, and its open records as lost
            logger.exception("the ledger's upkeep failed")

    async def _look(self) -> None:
        for worker, beat in await beat_and_look(self._connection, self._writer.worker_id, self._watch):
            self._writer.adopt_orphans()
            await close_as_lost(self._connection, worker, beat)


@sync_to_async
def _make_partitions() -> None:
    if made := make_partitions(django_connection, timezone.now()):
        logger.warning("made partitions: %s", ", ".join(made))
    django_connection.close()
