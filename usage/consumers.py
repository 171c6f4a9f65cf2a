"""The live strip's socket: a snapshot, then deltas with numbers, and a snapshot whenever the client asks.

To the client: `{"type": "snapshot" | "delta", "number": n, "values": {...}}`; a delta holds what changed since
number n - 1. From the client: `{"type": "resync"}`. The path checks the Origin before anything here runs.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.utils.module_loading import import_string

from usage.live import Channel, LiveFeed
from usage.visibility import Scope, may_open_pages, scope_of

RECHECK_EVERY_S = 30.0
MESSAGE_MAX = 64 * 1024
SOCKETS_PER_USER = 20
#: A client may ask for no more snapshots than one in this time.
RESYNC_EVERY_S = 0.5

NOT_ALLOWED = 4403
TOO_MANY = 4429
TOO_BIG = 1009

_open_sockets: Counter[int] = Counter()


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels is untyped
    #: It sends to nobody and is sent nothing: the feed is its worker's own.
    channel_layer_alias = ""

    def __init__(
        self,
        feed: LiveFeed,
        *,
        is_proven: Callable[[Any, Any], bool] = lambda user, session: True,
        recheck_every_s: float = RECHECK_EVERY_S,
    ) -> None:
        """Args:
        is_proven: Tells of a user and a session whether more than a login was shown, where more is asked for.
        """
        super().__init__()
        self._is_proven = is_proven
        self._feed = feed
        self._recheck_every_s = recheck_every_s
        self._user_id: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._channel: Channel | None = None
        self._resynced_at = 0.0

    async def connect(self) -> None:
        scope = await self._rights(self.scope["user"], self.scope.get("session"))
        if scope is None:
            await self.close(NOT_ALLOWED)
            return
        user_id = int(self.scope["user"].pk)
        if _open_sockets[user_id] >= SOCKETS_PER_USER:
            await self.close(TOO_MANY)
            return
        self._user_id = user_id
        _open_sockets[user_id] += 1
        await self.accept()
        self._tasks = [asyncio.create_task(self._send_all(scope)), asyncio.create_task(self._recheck(scope))]

    async def disconnect(self, code: int) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._user_id is not None:
            _open_sockets[self._user_id] -= 1
            if not _open_sockets[self._user_id]:
                del _open_sockets[self._user_id]
            self._user_id = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if bytes_data is not None or len(text_data or "") > MESSAGE_MAX:
            await self.close(TOO_BIG)
            return
        with suppress(json.JSONDecodeError, RecursionError):
            if json.loads(text_data or "null") == {"type": "resync"}:
                await self._resync()

    async def _resync(self) -> None:
        now = time.monotonic()
        if self._channel is not None and now >= self._resynced_at + RESYNC_EVERY_S:
            self._resynced_at = now
            await self.send(text_data=self._channel.snapshot())

    async def _send_all(self, scope: Scope) -> None:
        number = 0
        async with self._feed.watching(scope) as self._channel:
            while True:
                number, message = await self._channel.next_after(number)
                await self.send(text_data=message)

    async def _recheck(self, known: Scope) -> None:
        """End the socket when its session, its user or a right is gone, or sees other things than at the start."""
        while True:
            await asyncio.sleep(self._recheck_every_s)
            with suppress(DatabaseError):  # what can't be checked can't be shown either: the feed is stale too
                if await self._rights_now() != known:
                    await self.close(NOT_ALLOWED)
                    return

    async def _rights_now(self) -> Scope | None:
        """Load the session and its user anew: those in the scope are the handshake's."""
        store = import_string(f"{settings.SESSION_ENGINE}.SessionStore")
        session = store(self.scope["session"].session_key)
        rights: Scope | None = await self._rights(await get_user({"session": session}), session)
        return rights

    @database_sync_to_async  # type: ignore[untyped-decorator]
    def _rights(self, user: Any, session: Any) -> Scope | None:
        return scope_of(user) if may_open_pages(user) and self._is_proven(user, session) else None
