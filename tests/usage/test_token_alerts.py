import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.utils import timezone
from pytest_django import Settings

from keys.models import ClientToken
from keys.tokens import issue_token
from members.tokens import rotate_token
from tests.usage.conftest import aside
from usage.connection import LedgerConnection
from usage.token_alerts import AT_ONCE, remind_of_tokens

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def mail_server(settings: Settings) -> None:
    settings.MAILS_MEMBERS = True


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice", "alice@example.com")


def a_token(user: User, name: str = "laptop", **times: timedelta | None) -> ClientToken:
    """Make a token that ends in five days and is in use; times are told by how far from now they are."""
    token, _ = issue_token(user, name, life=90 * DAY)
    times = {"created_at": -85 * DAY, "expires_at": 5 * DAY, "last_used_at": -DAY} | times
    now = timezone.now()
    moments = {column: now + time if time is not None else None for column, time in times.items()}
    ClientToken.objects.filter(pk=token.pk).update(**moments)
    return token


async def reminded(connection: LedgerConnection) -> list[str]:
    await remind_of_tokens(connection)
    return [message.body for message in mail.outbox]


async def test_a_member_is_told_once_by_one_worker(
    connection: LedgerConnection, rival: LedgerConnection, alice: User
) -> None:
    token = await aside(a_token, alice, "laptop\r\nBcc: all@example.com")
    await asyncio.gather(remind_of_tokens(connection), remind_of_tokens(rival))
    await remind_of_tokens(connection)

    (message,) = mail.outbox
    assert message.to == ["alice@example.com"]
    assert message.subject == "A client token of yours ends soon"
    assert f"'laptop\\r\\nBcc: all@example.com' (…{token.last_four}) of alice ends on" in message.body
    assert "Bcc" not in message.message()


@pytest.mark.parametrize(
    "times",
    [
        {"expires_at": 8 * DAY},
        {"expires_at": -DAY},
        {"revoked_at": -DAY},
        {"last_used_at": None},
        {"last_used_at": -8 * DAY},
        {"created_at": -5 * DAY},
    ],
    ids=["later", "over", "revoked", "never used", "used no more", "short-lived"],
)
async def test_nobody_is_told_of_a_token_that_they_will_not_miss(
    connection: LedgerConnection, alice: User, times: dict[str, timedelta | None]
) -> None:
    await aside(a_token, alice, **times)

    assert await reminded(connection) == []


@pytest.mark.parametrize("columns", [{"email": ""}, {"is_active": False}], ids=["no address", "gone"])
async def test_nobody_is_told_who_can_not_be(
    connection: LedgerConnection, alice: User, columns: dict[str, Any]
) -> None:
    await aside(a_token, alice)
    await aside(User.objects.filter(pk=alice.pk).update, **columns)

    assert await reminded(connection) == []


async def test_who_has_rotated_a_token_knows_that_it_ends(connection: LedgerConnection, alice: User) -> None:
    token = await aside(a_token, alice)
    await aside(rotate_token, token, grace=7 * DAY)

    assert await reminded(connection) == []


async def test_without_a_mail_server_nobody_is_told(
    connection: LedgerConnection, alice: User, settings: Settings
) -> None:
    settings.MAILS_MEMBERS = False
    token = await aside(a_token, alice)

    assert await reminded(connection) == []
    await aside(token.refresh_from_db)
    assert token.reminded_at is None


async def test_many_are_told_a_few_at_a_time_the_soonest_first(connection: LedgerConnection, alice: User) -> None:
    for days in range(AT_ONCE + 1):
        await aside(a_token, alice, f"no. {days}", expires_at=timedelta(hours=1 + days))

    assert not any(f"'no. {AT_ONCE}'" in text for text in await reminded(connection))
    assert len(await reminded(connection)) == AT_ONCE + 1


async def test_an_address_that_is_none_stops_nothing(connection: LedgerConnection, alice: User) -> None:
    bob = await aside(User.objects.create_user, "bob", "bob@example.com")
    await aside(User.objects.filter(pk=alice.pk).update, email="alice\n@example.com")
    for hours, user in enumerate([alice, bob], 1):
        await aside(a_token, user, expires_at=timedelta(hours=hours))

    assert len(await reminded(connection)) == 1
    assert mail.outbox[0].to == ["bob@example.com"]
