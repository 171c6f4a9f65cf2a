"""The in-memory directory of tokens, routes, upstreams and credentials: each worker has its own.

It follows Postgres by NOTIFY and polling. When Postgres is away it goes on with what it knows.
"""

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Any

import psycopg

from keys.entries import AliasEntry, CredentialEntry, RouteEntry, TokenEntry, UpstreamEntry
from keys.leaks import Kind, Leak, Watch, tokens_in
from keys.listening import Follower
from keys.ring import key_ring
from keys.secrets import KeyRing
from keys.snapshot import Snapshot, load_snapshot, read_fingerprint
from keys.tokens import digest, is_well_formed

logger = logging.getLogger(__name__)

CHANNEL = "bridge_keys"
POLL_S = 1.5
START_TIMEOUT_S = 20.0


class Directory:
    """Answers from memory who a token belongs to and where an alias leads."""

    def __init__(self, dsn: str, key_ring: KeyRing) -> None:
        self._key_ring = key_ring
        self._follower = Follower(dsn, CHANNEL, self._refresh, poll_s=POLL_S)
        self._snapshot = Snapshot()
        self._watch = Watch()
        self._read_at = float("-inf")
        # Expiry goes by the database's clock: its time is this much ahead of our monotonic one.
        self._clock_offset_s = time.time() - time.monotonic()

    async def start(self) -> None:
        """Read the tables once and follow them from then on.

        Raises:
            TimeoutError: Postgres gave no answer in time; the directory goes on trying.
        """
        self._follower.start()
        await asyncio.wait_for(self._follower.ready.wait(), START_TIMEOUT_S)

    async def close(self) -> None:
        await self._follower.close()

    @property
    def age_s(self) -> float:
        """Seconds since Postgres last confirmed what is held here."""
        return time.monotonic() - self._read_at

    def now(self) -> float:
        """Return the database's Unix time, as far as we know it; steps of our own clock don't matter."""
        return time.monotonic() + self._clock_offset_s

    def authenticate(self, token: str) -> TokenEntry | None:
        """Return whose token this is; None when it is malformed, unknown, revoked or expired."""
        if not is_well_formed(token):
            return None
        entry = self._snapshot.tokens.get(digest(token))
        if entry is None or entry.expires_at.timestamp() <= self.now():
            return None
        return entry

    def ended(self, token: str) -> int | None:
        """Return the id of a token that was revoked or has expired not long ago; None for any other."""
        if not is_well_formed(token):
            return None
        name = digest(token)
        entry = self._snapshot.tokens.get(name)
        if entry is None:
            return self._snapshot.ended.get(name)
        return entry.id if entry.expires_at.timestamp() <= self.now() else None

    def leaks_in(self, text: bytes) -> tuple[Leak, ...]:
        """Find the tokens that may be used, and the credentials, whose secret stands in a text. Any thread may ask."""
        entries = (self.authenticate(token) for token in tokens_in(text))
        tokens = [Leak(Kind.TOKEN, entry.id) for entry in entries if entry is not None]
        return (*tokens, *self._watch.credentials_in(text))

    def resolve(self, alias: str) -> RouteEntry | None:
        """Return where `alias` leads; None when no enabled route takes it."""
        return self._snapshot.resolve(alias)

    def aliases(self) -> tuple[AliasEntry, ...]:
        """List the names that clients may send."""
        return self._snapshot.aliases()

    def current(self, token_id: int) -> TokenEntry | None:
        """Return a token that was accepted earlier as it is now, for calls that run long; None when it ended."""
        entry = self._snapshot.tokens_by_id.get(token_id)
        return entry if entry is not None and entry.expires_at.timestamp() > self.now() else None

    @property
    def upstreams(self) -> tuple[UpstreamEntry, ...]:
        return tuple(self._snapshot.upstreams.values())

    def credentials(self, upstream_id: int) -> tuple[CredentialEntry, ...]:
        """Return the credentials of an upstream, usable or not."""
        return self._snapshot.credentials.get(upstream_id, ())

    @property
    def undecryptable(self) -> int:
        """How many credentials our key ring doesn't open."""
        return self._snapshot.undecryptable

    def sealed(self) -> tuple[tuple[UpstreamEntry, CredentialEntry], ...]:
        """Return the credentials that our key ring doesn't open, with their upstreams."""
        snapshot = self._snapshot
        return tuple(
            (upstream, entry)
            for upstream in snapshot.upstreams.values()
            for entry in snapshot.credentials.get(upstream.id, ())
            if entry.enabled and entry.defect == "undecryptable"
        )

    def secrets(self) -> frozenset[str]:
        """Return every opened secret, for the scrubber of logs."""
        return frozenset(_secrets_of(self._snapshot).values())

    async def _refresh(self, connection: psycopg.AsyncConnection[Any], noticed: bool) -> None:
        await self._read_clock(connection)
        is_stale = noticed or await read_fingerprint(connection) != self._snapshot.fingerprint
        if is_stale or self._has_fresh_ring(self._snapshot):
            snapshot = await load_snapshot(connection, self._key_ring)
            if self._has_fresh_ring(snapshot):
                snapshot = await load_snapshot(connection, self._key_ring)
            if snapshot.undecryptable not in (0, self._snapshot.undecryptable):
                logger.warning("no encryption key of the ring opens %s of the credentials", snapshot.undecryptable)
            if _secrets_of(snapshot) != _secrets_of(self._snapshot):
                self._watch = Watch(entry for group in snapshot.credentials.values() for entry in group)
            # Only now, so that nobody meets credentials that the old ring doesn't open.
            self._snapshot = snapshot
        self._read_at = time.monotonic()

    def _has_fresh_ring(self, snapshot: Snapshot) -> bool:
        """Take the ring anew when ours doesn't open all of the snapshot; True when it is another one."""
        if not snapshot.undecryptable or (fresh := key_ring()) == self._key_ring:
            return False
        self._key_ring = fresh
        return True

    async def _read_clock(self, connection: psycopg.AsyncConnection[Any]) -> None:
        cursor = await connection.execute("SELECT clock_timestamp()")
        row = await cursor.fetchone()
        stamp: datetime = row[0] if row else datetime.now(UTC)
        self._clock_offset_s = stamp.timestamp() - time.monotonic()


def _secrets_of(snapshot: Snapshot) -> dict[int, str]:
    """Return the opened secrets by the ids of their credentials."""
    groups = snapshot.credentials.values()
    return {entry.id: entry.opened for group in groups for entry in group if entry.opened}
