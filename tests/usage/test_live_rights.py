"""Who may open the live strip's socket, and for how long."""

import asyncio
import json
from collections import deque
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django_otp import DEVICE_ID_SESSION_KEY
from django_otp.plugins.otp_totp.models import TOTPDevice
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from bridgeproject.sockets import has_shown_second_factor
from tests.gateway import RunningGateway
from tests.usage.conftest import a_record
from tests.usage.live import alice, feed, in_thread, no_sockets_left, session_of, socket, watching
from tests.usage.waiting import PATIENCE_S
from usage import consumers
from usage.consumers import NOT_ALLOWED, TOO_BIG, TOO_MANY
from usage.live import LiveFeed
from usage.records import RecordWriter

__all__ = ["alice", "feed", "no_sockets_left"]


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

    while (answer := await watcher.communicator.receive_output())["type"] == "websocket.send":
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

    async with asyncio.timeout(PATIENCE_S):
        while (sent := await communicator.receive_output())["type"] == "websocket.send":
            pass
    assert sent == {"type": "websocket.close", "code": NOT_ALLOWED}
    await communicator.disconnect()


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
        return connect(address, proxy=None, origin=Origin(origin), additional_headers=headers, open_timeout=PATIENCE_S)

    with pytest.raises(InvalidStatus, match="403"):
        opened(origin="https://elsewhere.example")
    with pytest.raises(InvalidStatus, match="403"):
        opened(headers={})
    with opened() as live:
        assert json.loads(live.recv(timeout=PATIENCE_S))["type"] == "snapshot"
        live.send("x" * 2 * 1024 * 1024)
        with pytest.raises(ConnectionClosed) as closed:
            deque(iter(lambda: live.recv(timeout=PATIENCE_S), None), maxlen=0)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == TOO_BIG
