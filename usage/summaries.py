"""Summaries of long conversations, for all workers and beyond a restart.

They are prompts of members in short. So they lie sealed under the key ring, bound to their row; they are asked for by member
and conversation together; and they are deleted `DAYS_KEPT` after their last use, at the latest. One that the ring no longer
opens is as good as none: it is written anew.
"""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from keys.ring import key_ring
from keys.secrets import Place, SealingError
from translator.core.compaction.summaries import Summary
from usage.cleaning import clean_text
from usage.connection import AWAY, LedgerConnection, Statement

__all__ = ["EXPIRE", "Receipt", "SummaryStore", "SummaryStoreAway", "summary_place"]

DAYS_KEPT = 7
#: The newest of a conversation; older ones serve when a client goes back some turns.
KEPT_OF_A_CONVERSATION = 4
READ_TIMEOUT_S = 1.0
TABLE = "usage_conversationsummary"

_TOUCH = f"""
UPDATE {TABLE} SET used_at = now()
WHERE conversation = $1 AND user_id = $2
  AND used_at BETWEEN now() - interval '{DAYS_KEPT} days' AND now() - interval '1 hour'
"""  # noqa: S608  (our own names and numbers, here and below)
_READ = f"""
SELECT id, covered, fingerprint, sealed_text, request_id FROM {TABLE}
WHERE conversation = $1 AND user_id = $2 AND used_at > now() - interval '{DAYS_KEPT} days'
ORDER BY made_at DESC, covered DESC LIMIT {KEPT_OF_A_CONVERSATION}
"""  # noqa: S608
_RECEIPT = f"""
SELECT id, covered, fingerprint, sealed_text, request_id, written_by, made_at FROM {TABLE}
WHERE request_id = $1 AND user_id = $2 AND used_at > now() - interval '{DAYS_KEPT} days'
"""  # noqa: S608
#: An advisory lock goes by a number.
LOCK_DIGITS = 15
_CLAIM = "SELECT pg_try_advisory_lock($1)"
_RELEASE = "SELECT pg_advisory_unlock($1)"
_WRITE = f"""
INSERT INTO {TABLE} (id, user_id, conversation, covered, fingerprint, sealed_text, written_by, request_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (conversation, covered, fingerprint) DO NOTHING
"""  # noqa: S608
_FORGET_OLDER = f"""
DELETE FROM {TABLE} WHERE conversation = $1 AND id NOT IN (
  SELECT id FROM {TABLE} WHERE conversation = $1 ORDER BY made_at DESC, covered DESC LIMIT {KEPT_OF_A_CONVERSATION})
"""  # noqa: S608
#: (): drop the summaries that nobody has used for long.
EXPIRE = f"DELETE FROM {TABLE} WHERE used_at < now() - interval '{DAYS_KEPT} days'"  # noqa: S608


class SummaryStoreAway(Exception):
    """Postgres gave no answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A summary, for the member whose conversation it is of."""

    summary: Summary
    #: The alias that wrote it.
    written_by: str
    made_at: datetime


class SummaryStore:
    """The summaries of all members, read and written by one worker."""

    def __init__(self, dsn: str) -> None:
        self._connection = LedgerConnection(dsn)
        self._turn = asyncio.Lock()
        #: Keeps reads that took too long from being collected.
        self._late: set[asyncio.Task[list[Summary]]] = set()

    async def read(self, user_id: int, conversation: str) -> list[Summary]:
        """Return the summaries of a member's conversation, newest first.

        Raises:
            SummaryStoreAway: They can't be read within a second.
        """
        # A statement can't be cancelled without a wait for the server, so one that is late goes on alone.
        reading = asyncio.create_task(self._read(user_id, conversation))
        self._late.add(reading)
        reading.add_done_callback(self._ended)
        await asyncio.wait({reading}, timeout=READ_TIMEOUT_S)
        if not reading.done() or reading.exception() is not None:
            msg = "summaries can't be read now"
            raise SummaryStoreAway(msg)
        return reading.result()

    async def receipt(self, user_id: int, request_id: str) -> Receipt | None:
        """Return what a member's request wrote; None when it wrote nothing, or it is gone.

        Raises:
            SummaryStoreAway: Postgres doesn't say.
        """
        [row] = await self._run((_RECEIPT, [clean_text(request_id, 64), user_id])) or [None]
        if row is None or (summary := _opened(*row[:5])) is None:
            return None
        return Receipt(summary=summary, written_by=row[5], made_at=row[6])

    async def claim(self, conversation: str) -> bool:
        """Take the right to write a conversation's next summary; False while another worker has it.

        It ends with the connection, so no worker that dies keeps it.

        Raises:
            SummaryStoreAway: Postgres doesn't say.
        """
        return bool(await self._ask(_CLAIM, conversation))

    async def release(self, conversation: str) -> None:
        """Give the right back.

        Raises:
            SummaryStoreAway: It ends with the connection.
        """
        await self._ask(_RELEASE, conversation)

    async def write(self, user_id: int, conversation: str, summary: Summary, *, written_by: str) -> None:
        """Keep a summary, and of the conversation's older ones a few.

        Raises:
            SummaryStoreAway: It isn't kept.
        """
        pk = secrets.randbits(62)
        sealed = key_ring().seal(summary.text, summary_place(pk))
        row = [pk, user_id, conversation, summary.covered, summary.fingerprint, sealed]
        names = [clean_text(written_by, 256), clean_text(summary.request_id, 64)]
        await self._run((_WRITE, [*row, *names]), (_FORGET_OLDER, [conversation]))

    async def close(self) -> None:
        await self._connection.close()

    async def _read(self, user_id: int, conversation: str) -> list[Summary]:
        places = [conversation, user_id]
        rows = await self._run((_TOUCH, places), (_READ, places))
        return [summary for row in rows if (summary := _opened(*row))]

    async def _ask(self, statement: str, conversation: str) -> Any:
        [(answer,)] = await self._run((statement, [int(conversation[:LOCK_DIGITS], 16)]))
        return answer

    async def _run(self, *group: Statement) -> list[Any]:
        """Commit the statements together and return the rows of the last."""
        try:
            async with self._turn:
                cursor = (await self._connection.run(group))[-1]
                return await cursor.fetchall() if cursor.description else []
        except (psycopg.Error, *AWAY) as exc:
            msg = f"summaries can't be read or kept now: {type(exc).__name__}"
            raise SummaryStoreAway(msg) from exc

    def _ended(self, reading: asyncio.Task[list[Summary]]) -> None:
        self._late.discard(reading)
        if not reading.cancelled():
            reading.exception()  # nobody may have waited for it


def _opened(pk: int, covered: int, fingerprint: str, sealed: str, request_id: str) -> Summary | None:
    try:
        text = key_ring().unseal(sealed, summary_place(pk))
    except SealingError:
        return None
    return Summary(covered=covered, fingerprint=fingerprint, text=text, request_id=request_id)


def summary_place(pk: int) -> Place:
    """Name the place of a summary's text, for its associated data."""
    return Place(table=TABLE, pk=pk, field="sealed_text")
