"""Follow what changes in Postgres: by notices, and by polling since a notice may be lost.

A lost connection is opened again with growing pauses; until then the follower's owner keeps what it knows.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from keys.tasks import end_task

logger = logging.getLogger(__name__)

PAUSE_INITIAL_S = 0.1
PAUSE_MAX_S = 5.0
CONNECT_TIMEOUT_S = 5
#: Between two refreshes at least: many notices in a moment are answered by one.
GAP_S = 0.05
#: A server that went silent is given up after this.
REFRESH_TIMEOUT_S = 15

#: Called with `noticed`: True after a notice or on a fresh connection, False when it is only time to poll.
Refresh = Callable[[psycopg.AsyncConnection[Any], bool], Awaitable[None]]


class Follower:
    """A task that calls `refresh` on each notice of `channel`, and every `poll_s` without one."""

    def __init__(self, dsn: str, channel: str, refresh: Refresh, *, poll_s: float) -> None:
        self._dsn = dsn
        self._channel = channel
        self._refresh = refresh
        self._poll_s = poll_s
        self._task: asyncio.Task[None] | None = None
        #: Set after the first successful refresh.
        self.ready = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow(), name=f"follow {self._channel}")

    async def close(self) -> None:
        await end_task(self._task)

    async def _follow(self) -> None:
        pause_s = PAUSE_INITIAL_S
        while True:
            try:
                connection = await self._connect()
            except (psycopg.Error, OSError) as exc:
                logger.warning("no connection for %s: %s", self._channel, type(exc).__name__)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_MAX_S)
                continue
            try:
                await self._serve(connection)
            except (psycopg.Error, OSError) as exc:
                logger.warning("lost the connection for %s: %s", self._channel, type(exc).__name__)
                # A connection that worked begins again with the short pause.
                pause_s = PAUSE_INITIAL_S if self.ready.is_set() else min(pause_s * 2, PAUSE_MAX_S)
                await asyncio.sleep(pause_s)
            finally:
                await connection.close()

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(
            self._dsn,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            options="-c statement_timeout=10000",
            application_name=f"bridge {self._channel}",
        )

    async def _serve(self, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(f"LISTEN {self._channel}".encode())
        noticed = True
        while True:
            async with asyncio.timeout(REFRESH_TIMEOUT_S):
                await self._refresh(connection, noticed)
            self.ready.set()
            noticed = False
            await asyncio.sleep(GAP_S)
            async for _ in connection.notifies(timeout=self._poll_s, stop_after=1):
                noticed = True
