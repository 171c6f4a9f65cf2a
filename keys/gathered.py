"""What one worker gathers about secrets of ours in memory and writes down together, never on a request's path."""

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import psycopg

from keys.tasks import end_task

logger = logging.getLogger(__name__)

SOON_S = 1.0
#: After a failure to write.
PAUSE_S = 5.0


class Gathered[Key, Item](ABC):
    """Keeps an item of each secret until it is written; what can't be written is kept for later."""

    #: What it is, for the log and the task.
    what: ClassVar[str]
    #: Writes it; its one place takes what `_place` returns.
    statement: ClassVar[bytes]

    def __init__(self, dsn: str, *, every_s: float) -> None:
        self._dsn = dsn
        self._every_s = every_s
        self._seen: dict[Key, Item] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._write_now_and_then(), name=self.what)

    async def close(self) -> None:
        """Write what is gathered, and stop."""
        await end_task(self._task)
        await self._write()

    @abstractmethod
    async def _write_now_and_then(self) -> None: ...

    @abstractmethod
    def _place(self, seen: dict[Key, Item]) -> Any: ...

    def _put_back(self, seen: dict[Key, Item]) -> None:
        """Keep what could not be written, beside what came meanwhile."""
        self._seen = seen | self._seen

    async def _write(self) -> bool:
        """Write what is gathered; False when it has to wait."""
        if not self._seen:
            return True
        seen, self._seen = self._seen, {}
        try:
            async with await psycopg.AsyncConnection.connect(
                self._dsn, autocommit=True, connect_timeout=3
            ) as connection:
                await connection.execute(self.statement, [self._place(seen)])
        except asyncio.CancelledError:
            self._put_back(seen)
            raise
        except (psycopg.Error, OSError) as exc:
            logger.info("%s could not be written: %s", self.what, type(exc).__name__)
            self._put_back(seen)
            return False
        return True


class GatheredSoon[Key, Item](Gathered[Key, Item]):
    """The same, written about so long after the first item came."""

    def __init__(self, dsn: str, *, every_s: float = SOON_S) -> None:
        super().__init__(dsn, every_s=every_s)
        self._wake = asyncio.Event()

    def _keep(self, key: Key, item: Item) -> None:
        self._seen[key] = item
        self._wake.set()

    async def _write_now_and_then(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self._write():
                await asyncio.sleep(self._every_s)
            else:
                self._wake.set()
                await asyncio.sleep(PAUSE_S)
