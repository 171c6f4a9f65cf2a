"""The last refusal of each client token, so that its member can be told what is wrong.

Workers gather them in memory and write what they have about once a second, a row per token at most, and never on a
request's path. Requests without a token of ours leave nothing.
"""

import asyncio
import contextlib
import logging
from dataclasses import asdict, dataclass, field
from time import monotonic

import orjson
import psycopg

logger = logging.getLogger(__name__)

EVERY_S = 1.0
#: After a failure to write.
PAUSE_S = 5.0
#: More tokens than these are not held at once.
TOKENS_MAX = 10_000
#: Column -> its length. What is longer is cut off.
TEXTS = {
    "request_id": 64,
    "error_type": 64,
    "message": 500,
    "method": 16,
    "path": 200,
    "client_name": 64,
    "client_version": 32,
}
_COLUMNS = ("status", *TEXTS)
#: (rows): keep those that are newer than what is there; tokens that are gone are left out. Rows are locked in order.
WRITE = f"""
INSERT INTO keys_tokenrefusal (token_id, at, {", ".join(_COLUMNS)})
SELECT r.token_id, now() - r.age_s * interval '1 second', {", ".join(f"r.{name}" for name in _COLUMNS)}
FROM json_to_recordset(%s::json) AS r(
    token_id bigint, age_s double precision, status smallint, {", ".join(f"{name} text" for name in TEXTS)})
JOIN keys_clienttoken AS t ON t.id = r.token_id
ORDER BY r.token_id
ON CONFLICT (token_id) DO UPDATE SET at = excluded.at, {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
    WHERE keys_tokenrefusal.at < excluded.at"""  # noqa: S608  (names of our own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that was turned away. Strings may hold anything: they are cleaned before they are written."""

    request_id: str
    status: int
    error_type: str
    message: str
    method: str
    path: str
    client_name: str = ""
    client_version: str = ""
    #: On this process's clock.
    at: float = field(default_factory=monotonic)


class LastRefused:
    """Gathers the refusals that one worker gave and writes them down together."""

    def __init__(self, dsn: str, *, every_s: float = EVERY_S) -> None:
        self._dsn = dsn
        self._every_s = every_s
        self._seen: dict[int, Refused] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def note(self, token_id: int, refused: Refused) -> None:
        if token_id in self._seen or len(self._seen) < TOKENS_MAX:
            self._seen[token_id] = refused
            self._wake.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._write_now_and_then(), name="refusals of tokens")

    async def close(self) -> None:
        """Write what is gathered, and stop."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._write()

    async def _write_now_and_then(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(self._every_s if await self._write() else PAUSE_S)

    async def _write(self) -> bool:
        """Write what is gathered; False when it has to wait."""
        if not self._seen:
            return True
        seen, self._seen = self._seen, {}
        try:
            async with await psycopg.AsyncConnection.connect(
                self._dsn, autocommit=True, connect_timeout=3
            ) as connection:
                await connection.execute(WRITE.encode(), [_rows(seen)])
        except asyncio.CancelledError:
            self._seen = seen | self._seen
            raise
        except (psycopg.Error, OSError) as exc:
            logger.info("refusals of tokens could not be written: %s", type(exc).__name__)
            self._seen = seen | self._seen
            self._wake.set()
            return False
        return True


def _rows(seen: dict[int, Refused]) -> str:
    now = monotonic()
    rows = []
    for token_id, refused in seen.items():
        values = asdict(refused)
        texts = {name: _clean(values[name])[:length] for name, length in TEXTS.items()}
        rows.append({"token_id": token_id, "age_s": now - refused.at, "status": refused.status, **texts})
    return orjson.dumps(rows).decode()


def _clean(text: str) -> str:
    """Take out what Postgres or JSON can't store."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
