"""Requests that a client may send again: the first one runs, the others learn how it stands.

Source: https://docs.stripe.com/api/idempotent_requests (255 characters, 24 hours, the body is compared).
Keys belong to a client token. Answers are kept only if the caller hands them over; by default a repetition
learns the status and the request's id, since Bridge stores no answers.
"""

import asyncio
import hashlib
from dataclasses import dataclass

from usage.connection import LedgerConnection

KEY_LENGTH_MAX = 255
HOURS_KEPT = 24

#: (token, key, digest, request, worker): take the key if it is free: new, expired, or held by a dead worker.
_CLAIM = f"""
INSERT INTO usage_idempotencykey AS k (token_id, key, body_digest, request_id, worker)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (token_id, key) DO UPDATE
SET body_digest = excluded.body_digest, request_id = excluded.request_id, worker = excluded.worker,
    made_at = now(), status = NULL, answer = NULL
WHERE k.made_at < now() - interval '{HOURS_KEPT} hours' OR k.request_id = excluded.request_id
    OR (k.status IS NULL AND NOT EXISTS (SELECT FROM usage_workerlease AS l WHERE l.worker = k.worker))
RETURNING id"""  # noqa: S608  (only our own number goes in)
_LOOK = "SELECT body_digest, status, answer, request_id FROM usage_idempotencykey WHERE token_id = $1 AND key = $2"
_FINISH = "UPDATE usage_idempotencykey SET status = $2, answer = $3 WHERE id = $1 AND request_id = $4"
_FORGET = "DELETE FROM usage_idempotencykey WHERE id = $1 AND request_id = $2"
#: (): drop the keys whose time is over.
EXPIRE = f"DELETE FROM usage_idempotencykey WHERE made_at < now() - interval '{HOURS_KEPT} hours'"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The caller makes the request, and then calls `finish` or `forget`."""

    id: int
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The first request with this key still runs: 409, try again."""

    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The first request with this key got its answer."""

    request_id: str
    status: int
    #: None unless the first one handed it over.
    answer: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherBody:
    """The key came with another body before: 422."""

    request_id: str


Standing = Claimed | Running | Answered | OtherBody


def is_valid_key(key: str) -> bool:
    """Tell whether a client's `Idempotency-Key` can be used: 1 to 255 printable ASCII characters."""
    return 0 < len(key) <= KEY_LENGTH_MAX and key.isascii() and key.isprintable()


class Idempotency:
    """The keys of all client tokens, asked by one worker."""

    def __init__(self, dsn: str, worker_id: str) -> None:
        self._connection = LedgerConnection(dsn)
        self._worker_id = worker_id
        self._turn = asyncio.Lock()

    async def claim(self, token_id: int, key: str, *, body: bytes, request_id: str) -> Standing:
        """Take the key, or learn how the request stands that has it.

        Raises:
            psycopg.Error: Postgres is away: make no request.
        """
        digest = hashlib.sha256(body).digest()
        async with self._turn:
            claim, look = await self._connection.run(
                [(_CLAIM, [token_id, key, digest, request_id, self._worker_id]), (_LOOK, [token_id, key])]
            )
            taken, held = await claim.fetchone(), await look.fetchone()
        if taken is not None:
            return Claimed(id=taken[0], request_id=request_id)
        assert held is not None  # noqa: S101  (what isn't free is there, in the same transaction)
        known, status, answer, first = bytes(held[0]), held[1], held[2], held[3]
        if known != digest:
            return OtherBody(request_id=first)
        if status is None:
            return Running(request_id=first)
        return Answered(request_id=first, status=status, answer=None if answer is None else bytes(answer))

    async def finish(self, claimed: Claimed, status: int, answer: bytes | None = None) -> None:
        """Keep the status of an answer that its client got."""
        async with self._turn:
            await self._connection.run([(_FINISH, [claimed.id, status, answer, claimed.request_id])])

    async def forget(self, claimed: Claimed) -> None:
        """Free the key: the client got no answer, or one that is worth another try."""
        async with self._turn:
            await self._connection.run([(_FORGET, [claimed.id, claimed.request_id])])

    async def close(self) -> None:
        await self._connection.close()
