"""One connection of the ledger to Postgres, which comes back by itself."""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor
from psycopg.conninfo import make_conninfo

CONNECT_TIMEOUT_S = 3.0
RUN_TIMEOUT_S = 10.0

#: What is raised while Postgres is away, hangs or shuts down, or has the tables of another version than this process,
#: as opposed to refusing a row.
AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
    OSError,
    TimeoutError,
)

_SESSION = {
    "application_name": "bridge-ledger",
    "connect_timeout": "3",
    "keepalives_idle": "10",
    "tcp_user_timeout": "10000",
    # A plan made while the tables were small must not scan them when they have grown.
    "options": "-c timezone=UTC -c statement_timeout=10s -c lock_timeout=5s -c plan_cache_mode=force_generic_plan"
    " -c jit=off -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off",
}

#: A statement with `$1`-style places, and what goes there.
Statement = tuple[str, Sequence[object]]


class LedgerConnection:
    """Runs groups of statements, each group one transaction and one round trip. For one task at a time."""

    def __init__(self, dsn: str) -> None:
        self._dsn = make_conninfo(dsn, **_SESSION)
        self._connection: AsyncConnection[Any] | None = None
        #: Whether the last try to connect failed.
        self.is_away = False
        #: Whether the last group reached the server, perhaps: if its run failed, it may be committed all the same.
        self.was_sent = False

    async def run(self, group: Sequence[Statement]) -> list[AsyncCursor[Any]]:
        """Commit the statements together and return their cursors.

        A connection that turns out dead is replaced and the group run once more: it may thus run twice, and must
        do no harm then.

        Raises:
            psycopg.Error: A statement was refused; one of `AWAY` when Postgres isn't there.
        """
        self.was_sent = False
        try:
            return await self._try_run(group)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            await self.close()
            return await self._try_run(group)

    async def close(self) -> None:
        """Disconnect; `run` would connect again."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(psycopg.Error):
                await connection.close()

    async def connect(self) -> AsyncConnection[Any]:
        """Return the connection, made anew if there is none."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        self.is_away = True
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            self._connection = await AsyncConnection.connect(
                self._dsn, autocommit=True, prepare_threshold=0, cursor_factory=AsyncRawCursor
            )
        self.is_away = False
        return self._connection

    async def _try_run(self, group: Sequence[Statement]) -> list[AsyncCursor[Any]]:
        connection = await self.connect()
        self.was_sent = True
        # Cancelling a statement would wait for the server; a cut socket ends it at once.
        watch = asyncio.get_running_loop().call_later(RUN_TIMEOUT_S, _cut, connection)
        try:
            if len(group) == 1:  # a transaction of its own, at half the CPU time of a pipeline
                return [await connection.execute(*group[0])]
            async with connection.pipeline():
                return [await connection.execute(statement, places) for statement, places in group]
        finally:
            watch.cancel()


def _cut(connection: AsyncConnection[Any]) -> None:
    """End the connection's socket under it: what waits for the server gets an error."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)
