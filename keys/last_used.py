"""When each client token was last used, written about once a minute and never on a request's path."""

import asyncio
import contextlib
import logging

import psycopg

logger = logging.getLogger(__name__)

EVERY_S = 60.0
NOTE = "UPDATE keys_clienttoken SET last_used_at = now() WHERE id = ANY(%s)"


class LastUsed:
    """Gathers the tokens that one worker saw and writes them down together."""

    def __init__(self, dsn: str, *, every_s: float = EVERY_S) -> None:
        self._dsn = dsn
        self._every_s = every_s
        self._seen: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def note(self, token_id: int) -> None:
        self._seen.add(token_id)

    async def start(self) -> None:
        self._task = asyncio.create_task(self._write_now_and_then(), name="tokens last used")

    async def close(self) -> None:
        """Write what is gathered, and stop."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._write()

    async def _write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._write()

    async def _write(self) -> None:
        if not self._seen:
            return
        seen, self._seen = self._seen, set()
        try:
            async with await psycopg.AsyncConnection.connect(
                self._dsn, autocommit=True, connect_timeout=3
            ) as connection:
                await connection.execute(NOTE, [sorted(seen)])
        except (psycopg.Error, OSError) as exc:
            logger.info("when tokens were last used could not be written: %s", type(exc).__name__)
            self._seen |= seen
