"""The live feed: one worker's view of what is going on, for all the sockets that watch it.

Postgres is the truth and is asked once a second, once for each scope that somebody watches, and not at all while
nobody does. What changed goes out as a delta; each message has a number, so that who missed one knows, and asks
for a snapshot. Nothing is queued: a socket that fell behind gets a snapshot instead of what it missed.
"""

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from django.utils import timezone

from keys.ring import key_ring
from keys.tasks import end_task
from usage.connection import AWAY, LedgerConnection
from usage.glance import statement, tidy
from usage.visibility import Scope

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
#: Tokens per second are those of this many seconds.
RATE_OVER_S = 10.0
#: So often something goes out even if nothing changed: a lost message is noticed by the next one.
BEAT_S = 2.0


class Channel:
    """The values of one scope, their number, and who waits for the next."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.watchers = 0
        self.number = 0
        self._values: dict[str, Any] = {}
        self._delta = ""
        self._snapshot = ""
        self._sent_at = 0.0
        #: (when, tokens of the day then)
        self._samples: deque[tuple[float, int]] = deque()
        self._news = asyncio.Event()

    async def next_after(self, number: int) -> tuple[int, str]:
        """Wait for a number above `number`; return it and the message that leads to it, the snapshot if need be."""
        while self.number <= number:
            await self._news.wait()
        return self.number, self._delta if number == self.number - 1 and number > 0 else self.snapshot()

    def snapshot(self) -> str:
        """Write everything as one message; all sockets get the same text."""
        self._snapshot = self._snapshot or _message("snapshot", self.number, self._values)
        return self._snapshot

    def publish(self, values: dict[str, Any], *, now: float) -> None:
        """Take in what was found; wake the watchers if it differs, or for the beat."""
        known = self._values
        changed = {name: value for name, value in values.items() if name not in known or known[name] != value}
        if not changed and now < self._sent_at + BEAT_S:
            return
        self._values = known | values
        self.number += 1
        self._sent_at = now
        self._delta, self._snapshot = _message("delta", self.number, changed), ""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def tokens_per_s(self, tokens_today: int, *, now: float) -> float | None:
        """Return the rate over the last seconds; None at first. Inexact at midnight, when the day begins anew."""
        while self._samples and (self._samples[0][0] < now - RATE_OVER_S or self._samples[-1][1] > tokens_today):
            self._samples.popleft()
        self._samples.append((now, tokens_today))
        since, before = self._samples[0]
        return round((tokens_today - before) / (now - since), 1) if now > since else None


def _message(kind: str, number: int, values: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "number": number, "values": values}, separators=(",", ":"))


class LiveFeed:
    """Asks Postgres while somebody watches. Belongs to one event loop.

    Args:
        dsn: libpq's connection string.
        encryption_key_ids: Gives the ids of the keys that open secrets.
    """

    def __init__(self, dsn: str, *, encryption_key_ids: Callable[[], Collection[str]] | None = None) -> None:
        self._connection = LedgerConnection(dsn)
        self._key_ids = encryption_key_ids or (lambda: key_ring().keys)
        self._channels: dict[Scope, Channel] = {}
        self._task: asyncio.Task[None] | None = None
        #: How often Postgres was asked, for tests and for curiosity.
        self.looks = 0

    @asynccontextmanager
    async def watching(self, scope: Scope) -> AsyncIterator[Channel]:
        """Give the channel of `scope`, fed as long as somebody holds it."""
        channel = self._channels.setdefault(scope, Channel(scope))
        channel.watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="live feed")
        try:
            yield channel
        finally:
            channel.watchers -= 1
            if not channel.watchers:
                self._channels.pop(scope, None)

    async def close(self) -> None:
        """Stop asking; whoever watches still hears nothing more."""
        await end_task(self._task)
        await self._connection.close()

    async def _run(self) -> None:
        """Look once a second until nobody watches any more."""
        while self._channels:
            began = time.monotonic()
            await self._look(began)
            await asyncio.sleep(max(0.1, began + LOOK_EVERY_S - time.monotonic()))
            if not self._channels:
                await self._connection.close()

    async def _look(self, now: float) -> None:
        channels = list(self._channels.values())
        group = [(statement(channel.scope, timezone.now(), self._key_ids()), ()) for channel in channels]
        self.looks += 1
        try:
            cursors = await self._connection.run(group)
            answers: list[dict[str, Any]] = [(await cursor.fetchone() or ({},))[0] for cursor in cursors]
        except (psycopg.Error, *AWAY) as exc:
            logger.debug("the live feed can't look: %s", type(exc).__name__)
            with suppress(psycopg.Error, *AWAY):
                await self._connection.close()
            for channel in channels:
                channel.publish({"is_stale": True}, now=now)
            return
        for channel, values in zip(channels, answers, strict=True):
            rate = channel.tokens_per_s(values["today"]["tokens"], now=now)
            channel.publish(tidy(values) | {"tokens_per_s": rate, "is_stale": False}, now=now)
