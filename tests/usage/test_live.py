"""The live strip: its numbers are SQL's, whatever was lost on the way."""

import asyncio
import json
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.backends.db import SessionStore
from django.db import connections
from django.test import Client
from django.urls import path
from django.utils import timezone
from django_otp import DEVICE_ID_SESSION_KEY
from django_otp.plugins.otp_totp.models import TOTPDevice
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from bridgeproject.sockets import has_shown_second_factor
from tests.gateway import RunningGateway
from tests.usage.conftest import a_record
from tests.usage.gate import Gate
from tests.usage.test_records import an_end, settled
from usage import consumers
from usage.connection import LedgerConnection
from usage.consumers import NOT_ALLOWED, TOO_BIG, TOO_MANY, LiveConsumer
from usage.glance import glance, statement, tidy
from usage.live import Channel, LiveFeed
from usage.records import RecordWriter
from usage.states import State
from usage.visibility import Scope

EVERYTHING = Scope(is_everything=True)


@pytest.fixture
async def feed(dsn: str) -> AsyncIterator[LiveFeed]:
    feed = LiveFeed(dsn)
    yield feed
    await feed.close()


@pytest.fixture
def alice(dsn: str) -> User:
    return User.objects.create_superuser("alice")


def session_of(user: User) -> SessionStore:
    client = Client()
    client.force_login(user)
    return SessionStore(client.cookies["sessionid"].value)


def socket(feed: LiveFeed, user: User, session: SessionStore | None = None, **options: Any) -> WebsocketCommunicator:
    application = URLRouter([path("ws/live/", LiveConsumer.as_asgi(feed=feed, **options))])
    communicator = WebsocketCommunicator(application, "/ws/live/")
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
        message = json.loads(await self.communicator.receive_from(timeout=10))
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

    async def until(self, condition: Callable[[dict[str, Any]], bool], *, within_s: float = 5) -> None:
        async with asyncio.timeout(within_s):
            while not condition(self.values):
                await self.take()


async def watching(feed: LiveFeed, user: User, **options: Any) -> Watcher:
    watcher = Watcher(socket(feed, user), **options)
    assert (await watcher.communicator.connect())[0]
    await watcher.take()
    return watcher


@pytest.fixture(autouse=True)
async def no_sockets_left() -> AsyncIterator[None]:
    yield
    consumers._open_sockets.clear()


async def test_the_first_message_is_everything_and_a_page_says_the_same(
    feed: LiveFeed, alice: User, writer: RecordWriter
) -> None:
    await writer.open(a_record())
    failed = a_record(user_name="<b>bob</b>")
    await writer.open(failed)
    writer.settle(an_end(failed, state=State.TIMEOUT, error_type="timeout_error"))
    await settled(writer)

    watcher = await watching(feed, alice)

    page = await asyncio.to_thread(in_thread, lambda: glance(EVERYTHING))
    assert {name: watcher.values[name] for name in page} == page
    assert page["in_flight"] == 1
    assert page["today"]["errors"] == 1
    assert page["last_errors"][0]["user_name"] == "<b>bob</b>"
    await watcher.communicator.disconnect()


def in_thread(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    finally:
        connections.close_all()


async def test_what_happens_comes_as_deltas(feed: LiveFeed, alice: User, writer: RecordWriter) -> None:
    watcher = await watching(feed, alice)
    assert watcher.values["in_flight"] == 0

    record = a_record()
    await writer.open(record)
    await watcher.until(lambda values: values["in_flight"] == 1)
    writer.settle(an_end(record))
    await watcher.until(lambda values: values["in_flight"] == 0 and values["today"]["requests"] == 1)

    await watcher.until(lambda values: (values["tokens_per_s"] or 0) > 0)
    await watcher.communicator.disconnect()


async def test_numbers_equal_sql_after_losses_and_a_killed_connection(
    feed: LiveFeed, alice: User, writer: RecordWriter, dsn: str, query: Callable[..., list[dict[str, Any]]]
) -> None:
    dice = random.Random(7)  # noqa: S311
    watcher = await watching(feed, alice, loses=lambda: dice.random() < 0.3)
    records = [a_record() for _ in range(30)]
    for place, record in enumerate(records):
        await writer.open(record)
        if place % 2:
            writer.settle(an_end(record, state=State.OK if place % 3 else State.UPSTREAM_ERROR))
        if place == 15:
            query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bridge-ledger'"
                " AND strpos(query, 'in_flight') > 0 AND pid <> pg_backend_pid()"
            )
        await asyncio.sleep(0.1)
    await settled(writer)

    (truth,) = query(statement(EVERYTHING, timezone.now(), ["k1"]))
    truth = tidy(truth["json_build_object"])
    await watcher.until(lambda values: all(values[name] == truth[name] for name in ("in_flight", "today")))

    assert watcher.values["last_errors"] == truth["last_errors"]
    assert watcher.values["in_flight"] == 15
    await watcher.communicator.disconnect()


async def test_it_says_when_postgres_is_away_and_comes_back(feed: LiveFeed, alice: User, dsn: str) -> None:
    watcher = await watching(feed, alice)
    assert watcher.values["is_stale"] is False

    await feed._connection.close()
    feed._connection = LedgerConnection("host=/nowhere dbname=none")
    await watcher.until(lambda values: values["is_stale"])
    assert watcher.values["in_flight"] == 0
    feed._connection = LedgerConnection(dsn)

    await watcher.until(lambda values: not values["is_stale"])
    await watcher.communicator.disconnect()


async def test_numbers_equal_sql_after_postgres_was_restarted(
    alice: User, writer: RecordWriter, dsn: str, query: Callable[..., list[dict[str, Any]]]
) -> None:
    gate = Gate(dsn)
    await gate.open()
    feed = LiveFeed(gate.dsn)
    dice = random.Random(3)  # noqa: S311
    watcher = await watching(feed, alice, loses=lambda: dice.random() < 0.1)

    await gate.shut()
    for _ in range(7):
        await writer.open(a_record())
    await watcher.until(lambda values: values["is_stale"])
    await gate.open()

    await watcher.until(lambda values: values["in_flight"] == 7 and not values["is_stale"], within_s=5)
    await watcher.communicator.disconnect()
    await feed.close()
    await gate.shut()


async def test_many_sockets_cost_one_statement_a_second(feed: LiveFeed, alice: User) -> None:
    watchers = [await watching(feed, alice) for _ in range(20)]
    looks = feed.looks
    await asyncio.sleep(2.2)

    assert feed.looks - looks <= 3
    for watcher in watchers:
        await watcher.communicator.disconnect()
    await asyncio.sleep(1.2)
    looks = feed.looks
    await asyncio.sleep(1.2)
    assert feed.looks == looks


async def test_more_sockets_than_allowed_are_refused(
    feed: LiveFeed, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "SOCKETS_PER_USER", 1)
    watcher = await watching(feed, alice)

    assert await socket(feed, alice).connect() == (False, TOO_MANY)
    await watcher.communicator.disconnect()
    again = await watching(feed, alice)
    await again.communicator.disconnect()


@pytest.mark.parametrize("message", ["x" * 70_000, b"\x00" * 100])
async def test_a_big_or_binary_message_ends_the_socket(feed: LiveFeed, alice: User, message: str | bytes) -> None:
    watcher = await watching(feed, alice)
    if isinstance(message, bytes):
        await watcher.communicator.send_to(bytes_data=message)
    else:
        await watcher.communicator.send_to(text_data=message)

    while (answer := await watcher.communicator.receive_output(timeout=5))["type"] == "websocket.send":
        pass
    assert answer == {"type": "websocket.close", "code": TOO_BIG}
    await watcher.communicator.disconnect()


@pytest.mark.parametrize("message", ["{", "null", '{"type":"other"}', "[" * 60_000])
async def test_nonsense_is_ignored(feed: LiveFeed, alice: User, message: str) -> None:
    watcher = await watching(feed, alice)

    await watcher.communicator.send_to(text_data=message)

    await watcher.take()
    await watcher.communicator.disconnect()


def a_lead(name: str, team: str) -> User:
    user = User.objects.create_user(name, is_staff=True)
    user.groups.add(Group.objects.get_or_create(name=team)[0])
    user.user_permissions.add(Permission.objects.get(codename="view_usagerecord"))
    return User.objects.get(pk=user.pk)


async def test_charlie_sees_the_own_team_only(feed: LiveFeed, dsn: str, writer: RecordWriter) -> None:
    charlie = await asyncio.to_thread(in_thread, lambda: a_lead("charlie", "blue"))
    blue = await Group.objects.aget(name="blue")
    await writer.open(a_record(team_id=blue.pk + 1, team_name="red"))
    await writer.open(a_record(team_id=blue.pk, team_name="blue"))
    await writer.open(a_record())

    watcher = await watching(feed, charlie)

    assert watcher.values["in_flight"] == 1
    await watcher.communicator.disconnect()


@pytest.mark.parametrize("right", ["is_staff", "permission", "is_active"])
async def test_who_lacks_a_right_is_refused(feed: LiveFeed, dsn: str, right: str) -> None:
    def make() -> User:
        user = User.objects.create_user("charlie", is_staff=right != "is_staff", is_active=right != "is_active")
        if right != "permission":
            user.user_permissions.add(Permission.objects.get(codename="view_usagerecord"))
        return user

    charlie = await asyncio.to_thread(in_thread, make)

    assert await socket(feed, charlie).connect() == (False, NOT_ALLOWED)


async def test_who_has_not_shown_the_second_factor_is_refused(feed: LiveFeed, alice: User) -> None:
    asked: list[Any] = []

    def refuse(user: User, session: Any) -> bool:
        asked.append(user)
        return False

    assert await socket(feed, alice, is_proven=refuse).connect() == (False, NOT_ALLOWED)
    assert asked == [alice]


async def test_the_second_factor_counts_for_the_socket_as_for_the_pages(dsn: str, alice: User) -> None:
    def check() -> tuple[bool, bool, bool]:
        session = session_of(alice)
        before = has_shown_second_factor(alice, session)
        device = TOTPDevice.objects.create(user=alice, confirmed=True)
        enrolled = has_shown_second_factor(alice, session)
        session[DEVICE_ID_SESSION_KEY] = device.persistent_id
        return before, enrolled, has_shown_second_factor(alice, session)

    assert await asyncio.to_thread(in_thread, check) == (True, False, True)


@pytest.mark.parametrize("loss", ["logged out", "no permission", "switched off", "other team"])
async def test_a_right_that_goes_ends_the_socket(feed: LiveFeed, dsn: str, loss: str) -> None:
    charlie = await asyncio.to_thread(in_thread, lambda: a_lead("charlie", "blue"))
    session = await asyncio.to_thread(in_thread, lambda: session_of(charlie))
    communicator = socket(feed, charlie, session, recheck_every_s=0.3)
    assert (await communicator.connect())[0]
    await asyncio.sleep(0.7)
    assert all(sent["type"] == "websocket.send" for sent in [await communicator.receive_output()])

    match loss:
        case "logged out":
            await asyncio.to_thread(in_thread, session.flush)
        case "no permission":
            await charlie.user_permissions.aclear()
        case "switched off":
            await User.objects.aupdate(is_active=False)
        case "other team":
            await charlie.groups.aset([await Group.objects.acreate(name="red")])

    async with asyncio.timeout(5):
        while (sent := await communicator.receive_output(timeout=5))["type"] == "websocket.send":
            pass
    assert sent == {"type": "websocket.close", "code": NOT_ALLOWED}
    await communicator.disconnect()


async def test_who_fell_behind_gets_a_snapshot() -> None:
    channel = Channel(EVERYTHING)
    for number in range(1, 4):
        channel.publish({"in_flight": number, "same": 0}, now=float(number))

    assert json.loads((await channel.next_after(2))[1]) == {"type": "delta", "number": 3, "values": {"in_flight": 3}}
    for behind in (0, 1):
        number, message = await channel.next_after(behind)
        assert (number, json.loads(message)) == (
            3,
            {"type": "snapshot", "number": 3, "values": {"in_flight": 3, "same": 0}},
        )


def test_a_beat_goes_out_when_nothing_changes() -> None:
    channel = Channel(EVERYTHING)

    for second in range(6):
        channel.publish({"in_flight": 1}, now=float(second))

    assert channel.number == 3


def test_the_rate_is_that_of_the_last_seconds() -> None:
    channel = Channel(EVERYTHING)

    rates = [channel.tokens_per_s(tokens, now=float(second)) for second, tokens in enumerate([0, 10, 30, 30, 30])]
    assert rates == [None, 10.0, 15.0, 10.0, 7.5]
    assert channel.tokens_per_s(30, now=20.0) is None
    assert channel.tokens_per_s(5, now=21.0) is None


async def test_the_search_for_errors_walks_an_index(dsn: str) -> None:
    plan = ""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("SET enable_seqscan = off")
        rows = await (await connection.execute("EXPLAIN " + statement(EVERYTHING, timezone.now(), ["k1"]))).fetchall()
        plan = "\n".join(row[0] for row in rows)

    assert "Seq Scan on usage_usagerecord" not in plan
    assert "state_id_idx" in plan or "usage_record_state" in plan


LOG_IN = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("watcher"))
print(client.cookies["sessionid"].value)
"""


def test_a_real_server_looks_at_origin_session_and_size(shared: RunningGateway) -> None:
    session = shared.command("shell", "--verbosity", "0", "-c", LOG_IN)
    address = f"{shared.base_url.replace('http', 'ws', 1)}/ws/live/"
    cookie = {"Cookie": f"sessionid={session}"}

    def opened(*, origin: str = shared.base_url, headers: dict[str, str] = cookie) -> ClientConnection:
        return connect(address, proxy=None, origin=Origin(origin), additional_headers=headers)

    with pytest.raises(InvalidStatus, match="403"):
        opened(origin="https://elsewhere.example")
    with pytest.raises(InvalidStatus, match="403"):
        opened(headers={})
    with opened() as live:
        assert json.loads(live.recv(timeout=5))["type"] == "snapshot"
        live.send("x" * 2 * 1024 * 1024)
        with pytest.raises(ConnectionClosed) as closed:
            deque(iter(lambda: live.recv(timeout=5), None), maxlen=0)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == TOO_BIG
