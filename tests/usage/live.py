"""Someone who watches the live strip, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import connections
from django.test import Client
from django.urls import path

from tests.usage.waiting import PATIENCE_S
from usage import consumers
from usage.consumers import LiveConsumer
from usage.live import LiveFeed
from usage.visibility import Scope

EVERYTHING = Scope(is_everything=True)


def session_of(user: User) -> SessionStore:
    client = Client()
    client.force_login(user)
    return SessionStore(client.cookies["sessionid"].value)


class Patient(WebsocketCommunicator):
    """Gives a slow machine time, where a second is the custom."""

    async def connect(self, timeout: float = PATIENCE_S) -> tuple[bool, Any]:  # noqa: ASYNC109  (as in channels)
        connected: tuple[bool, Any] = await super().connect(timeout)
        return connected

    async def receive_output(self, timeout: float = PATIENCE_S) -> dict[str, Any]:  # noqa: ASYNC109
        output: dict[str, Any] = await super().receive_output(timeout)
        return output

    async def disconnect(self, code: int = 1000, timeout: float = PATIENCE_S) -> None:  # noqa: ASYNC109
        await super().disconnect(code, timeout)


def socket(feed: LiveFeed, user: User, session: SessionStore | None = None, **options: Any) -> WebsocketCommunicator:
    application = URLRouter([path("ws/live/", LiveConsumer.as_asgi(feed=feed, **options))])
    communicator = Patient(application, "/ws/live/")
    communicator.scope["user"] = user
    communicator.scope["session"] = session
    return communicator


class Watcher:
    """Does what static/bridge/live.js does: takes deltas in order, asks for a snapshot when one is missing."""

    def __init__(self, communicator: WebsocketCommunicator, *, loses: Callable[[], bool] = lambda: False) -> None:
        self.communicator = communicator
        self.values: dict[str, Any] = {}
        self.number = 0
        self.lost = 0
        self._loses = loses

    async def take(self) -> None:
        message = json.loads(await self.communicator.receive_from(timeout=PATIENCE_S))
        if self._loses():
            self.lost += 1
            return
        if message["type"] == "snapshot":
            self.values, self.number = message["values"], message["number"]
        elif message["number"] == self.number + 1:
            self.values |= message["values"]
            self.number += 1
        else:
            await self.communicator.send_to(text_data='{"type":"resync"}')

    async def until(self, condition: Callable[[dict[str, Any]], bool], *, within_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(within_s):
            while not condition(self.values):
                await self.take()


async def watching(feed: LiveFeed, user: User, **options: Any) -> Watcher:
    watcher = Watcher(socket(feed, user), **options)
    assert (await watcher.communicator.connect())[0]
    await watcher.take()
    return watcher


def in_thread(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    finally:
        connections.close_all()


@pytest.fixture
async def feed(dsn: str) -> AsyncIterator[LiveFeed]:
    feed = LiveFeed(dsn)
    yield feed
    await feed.close()


@pytest.fixture
def alice(dsn: str) -> User:
    return User.objects.create_superuser("alice")


@pytest.fixture(autouse=True)
async def no_sockets_left() -> AsyncIterator[None]:
    yield
    consumers._open_sockets.clear()
