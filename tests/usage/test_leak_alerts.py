import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.core import mail

from tests.usage.test_pool_alerts import Hook, add_credential, hook
from usage.alerts import Addresses
from usage.connection import LedgerConnection
from usage.leak_alerts import Leaked, send, tell_of_leaks

__all__ = ["hook"]

Query = Callable[..., list[dict[str, Any]]]

MAILED = Addresses(emails=["ops@example.com"])


@pytest.fixture
def alice(query: Query) -> int:
    row = query(
        "INSERT INTO auth_user (username, password, is_superuser, is_staff, is_active, first_name, last_name, email,"
        " date_joined) VALUES ('alice', '', false, false, true, '', '', '', now()) RETURNING id"
    )
    identity: int = row[0]["id"]
    return identity


@pytest.fixture
def token(query: Query, alice: int) -> int:
    row = query(
        "INSERT INTO keys_clienttoken (user_id, name, digest, prefix, last_four, scopes, created_at, expires_at)"
        " VALUES (%s, 'laptop', 'digest', 'brg_abcd', 'wxyz', '[]', now(), now() + interval '9 days') RETURNING id",
        alice,
    )
    identity: int = row[0]["id"]
    return identity


@pytest.fixture
def credential(query: Query) -> int:
    upstream_id = query(
        "INSERT INTO keys_upstream (name, dialect, base_url, profile, profile_overrides, enabled, connect_timeout_s,"
        " first_byte_timeout_s, idle_timeout_s, total_timeout_s)"
        " VALUES ('acme', 'openai_chat', 'https://api.acme.example/v1', '', '{}', true, 10, 60, 60, 600) RETURNING id"
    )[0]["id"]
    identity = add_credential(query, upstream_id, 1)
    query("UPDATE keys_credential SET sealed_secret = 'sealed' WHERE id = %s", identity)
    return identity


def see(query: Query, kind: str, secret_id: int, user_id: int, last_four: str = "") -> None:
    query(
        "INSERT INTO keys_sighting (kind, secret_id, last_four, first_at, last_at, times, request_id, user_id)"
        " VALUES (%s, %s, %s, now(), now(), 1, 'req_1', %s)",
        kind,
        secret_id,
        last_four,
        user_id,
    )


async def test_a_secret_is_told_of_once_by_one_worker(
    connection: LedgerConnection, rival: LedgerConnection, query: Query, token: int, credential: int, alice: int
) -> None:
    see(query, "token", token, alice)
    see(query, "credential", credential, alice, "0001")
    await asyncio.gather(tell_of_leaks(connection, MAILED), tell_of_leaks(rival, MAILED))
    query("UPDATE keys_sighting SET told_at = told_at - interval '1 day', times = 9")
    await tell_of_leaks(connection, MAILED)

    (message,) = mail.outbox
    assert message.subject == "2 secrets were seen in requests"
    assert "client token alice / laptop (…wxyz), in req_1 of alice" in message.body
    assert "credential acme / key-1 (…0001), in req_1 of alice" in message.body


async def test_what_is_seen_within_a_minute_of_a_message_comes_with_the_next(
    connection: LedgerConnection, query: Query, token: int, credential: int, alice: int
) -> None:
    see(query, "token", token, alice)
    await tell_of_leaks(connection, MAILED)
    see(query, "credential", credential, alice, "0001")
    await tell_of_leaks(connection, MAILED)
    assert len(mail.outbox) == 1

    query("UPDATE keys_sighting SET told_at = told_at - interval '61 seconds'")
    await tell_of_leaks(connection, MAILED)

    assert [message.subject for message in mail.outbox[1:]] == ["A secret was seen in a request"]
    assert "laptop" not in mail.outbox[1].body


async def test_what_was_rotated_or_dismissed_is_nobodys_news(
    connection: LedgerConnection, query: Query, token: int, credential: int, alice: int
) -> None:
    see(query, "token", token, alice)
    see(query, "credential", credential, alice, "old4")
    query("UPDATE keys_sighting SET dismissed_at = now() WHERE kind = 'token'")
    await tell_of_leaks(connection, MAILED)
    assert query("SELECT kind FROM keys_sighting") == [{"kind": "token"}], "it says what was dismissed"

    query("UPDATE keys_clienttoken SET revoked_at = now()")
    await tell_of_leaks(connection, MAILED)

    assert query("SELECT kind FROM keys_sighting") == []
    assert mail.outbox == []


def test_the_webhook_gets_all_of_them_and_the_mail_names_some(hook: str, settings: Any) -> None:
    settings.ALLOW_PRIVATE_UPSTREAMS = ["127.0.0.1"]
    leaks = [
        Leaked(kind="token", owner="alice", name=f"n{number}", last_four="wxyz", request_id="req_1", seen_with="bob")
        for number in range(25)
    ]

    send(leaks, Addresses(emails=["ops@example.com"], webhook=hook))

    (body,) = map(orjson.loads, Hook.bodies)
    assert len(body["leaks"]) == 25
    assert body["leaks"][3] == {
        "kind": "token",
        "owner": "alice",
        "name": "n3",
        "request_id": "req_1",
        "seen_with": "bob",
    }
    assert "and 5 more" in mail.outbox[0].body
