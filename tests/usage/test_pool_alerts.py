import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import orjson
import pytest
from django.core import mail

from keys.entries import CredentialEntry, UpstreamEntry
from tests.e2e.client import ask
from tests.gateway import MakeGateway
from tests.keys.pools import credential, upstream
from tests.keys.processes import until
from usage.alerts import Addresses
from usage.pool_alerts import LOOK_EVERY_S, PoolAlerts, Trouble, tell_of

Query = Callable[..., list[dict[str, Any]]]
Sealed = list[tuple[UpstreamEntry, CredentialEntry]]

MAILED = Addresses(emails=["ops@example.com"])


@pytest.fixture
def sealed() -> Sealed:
    return []


@pytest.fixture
async def alerts(dsn: str, sealed: Sealed) -> AsyncIterator[PoolAlerts]:
    one = PoolAlerts(dsn, MAILED, lambda: sealed)
    yield one
    await one.close()


@pytest.fixture
async def rival(dsn: str, sealed: Sealed) -> AsyncIterator[PoolAlerts]:
    one = PoolAlerts(dsn, MAILED, lambda: sealed)
    yield one
    await one.close()


@pytest.fixture
def credentials(query: Query) -> list[int]:
    """Three credentials of one upstream."""
    upstream_id = query(
        "INSERT INTO keys_upstream (name, dialect, base_url, profile, profile_overrides, enabled, connect_timeout_s,"
        " first_byte_timeout_s, idle_timeout_s, total_timeout_s)"
        " VALUES ('acme', 'openai_chat', 'https://api.acme.example/v1', '', '{}', true, 10, 60, 60, 600) RETURNING id"
    )[0]["id"]
    return [add_credential(query, upstream_id, number) for number in range(1, 4)]


def add_credential(query: Query, upstream_id: int, number: int) -> int:
    row = query(
        "INSERT INTO keys_credential (upstream_id, label, last_four, enabled, draining, priority, weight, sealed_secret)"
        " VALUES (%s, %s, %s, true, false, 0, 1, '') RETURNING id",
        upstream_id,
        f"key-{number}",
        f"000{number}",
    )
    identity: int = row[0]["id"]
    return identity


def put_state(query: Query, credential_id: int, state: str, cause: str = "") -> None:
    query(
        "INSERT INTO keys_credentialstate (credential_id, model_name, state, cause, failures, rests, changed_at)"
        " VALUES (%s, '', %s, %s, 1, 1, now())"
        " ON CONFLICT (credential_id, model_name) DO UPDATE SET state = excluded.state, cause = excluded.cause",
        credential_id,
        state,
        cause,
    )


def time_passes(query: Query, span: str) -> None:
    query("UPDATE usage_poolwarning SET warned_at = warned_at - %s::interval", span)


async def test_a_quarantined_credential_is_told_of_once_by_one_worker(
    alerts: PoolAlerts, rival: PoolAlerts, query: Query, credentials: list[int]
) -> None:
    put_state(query, credentials[0], "quarantined", "wrong_key")
    put_state(query, credentials[1], "cooling", "rate_limit")
    await asyncio.gather(alerts.look(), rival.look())
    time_passes(query, "2 hours")
    await alerts.look()
    await rival.look()

    (message,) = mail.outbox
    assert message.subject == "A credential needs you"
    assert message.to == ["ops@example.com"]
    assert "acme / key-1 (…0001): the upstream doesn't accept the secret" in message.body


async def test_what_fails_within_a_minute_of_a_message_comes_with_the_next(
    alerts: PoolAlerts, query: Query, credentials: list[int]
) -> None:
    put_state(query, credentials[0], "quarantined", "wrong_key")
    await alerts.look()
    put_state(query, credentials[1], "quarantined", "no_credit")
    await alerts.look()
    put_state(query, credentials[2], "quarantined", "no_credit")
    await alerts.look()
    assert len(mail.outbox) == 1

    time_passes(query, "61 seconds")
    await alerts.look()

    assert [message.subject for message in mail.outbox[1:]] == ["2 credentials need you"]
    assert "key-1" not in mail.outbox[1].body


async def test_one_that_flaps_is_told_of_again_but_not_within_the_hour(
    alerts: PoolAlerts, query: Query, credentials: list[int]
) -> None:
    for state in ("quarantined", "ready", "quarantined"):
        put_state(query, credentials[0], state, "wrong_key")
        await alerts.look()
        time_passes(query, "10 minutes")
    assert len(mail.outbox) == 1

    time_passes(query, "1 hour")
    await alerts.look()

    assert len(mail.outbox) == 2


async def test_another_cause_is_news(alerts: PoolAlerts, query: Query, credentials: list[int]) -> None:
    for cause in ("wrong_key", "no_credit", "no_credit"):
        put_state(query, credentials[0], "quarantined", cause)
        await alerts.look()
        time_passes(query, "2 hours")

    assert len(mail.outbox) == 2


async def test_a_secret_that_does_not_open_is_told_of(alerts: PoolAlerts, query: Query, sealed: Sealed) -> None:
    sealed.append((upstream(1), credential(7, defect="undecryptable", opened="")))

    await alerts.look()
    await alerts.look()

    (message,) = mail.outbox
    assert "upstream-1 / key-7" in message.body
    assert "can't be opened" in message.body


async def test_a_disabled_credential_needs_nobody(alerts: PoolAlerts, query: Query, credentials: list[int]) -> None:
    put_state(query, credentials[0], "quarantined", "wrong_key")
    query("UPDATE keys_credential SET enabled = false")

    await alerts.look()

    assert mail.outbox == []


class Hook(BaseHTTPRequestHandler):
    bodies: list[bytes] = []

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[str]:
    Hook.bodies = []
    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/alerts"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_webhook_gets_all_of_them_and_the_mail_names_some(hook: str, settings: Any) -> None:
    settings.ALLOW_PRIVATE_UPSTREAMS = ["127.0.0.1"]
    troubles = [
        Trouble(credential_id=number, upstream="acme", label=f"key-{number}", last_four="abcd", cause="no_credit")
        for number in range(25)
    ]

    tell_of(troubles, Addresses(emails=["ops@example.com"], webhook=hook))

    (body,) = map(orjson.loads, Hook.bodies)
    assert len(body["credentials"]) == 25
    assert body["credentials"][3] == {"upstream": "acme", "credential": "key-3", "cause": "no_credit"}
    assert "and 5 more" in mail.outbox[0].body


def test_a_webhook_that_is_away_holds_nothing_up(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.ALLOW_PRIVATE_UPSTREAMS = ["127.0.0.1"]
    trouble = Trouble(credential_id=1, upstream="acme", label="key-1", last_four="abcd", cause="wrong_key")

    tell_of([trouble], Addresses(emails=["ops@example.com"], webhook="http://127.0.0.1:9/"))

    assert len(mail.outbox) == 1
    assert "could not be called" in caplog.text


@pytest.mark.slow
def test_of_two_workers_one_calls_the_webhook(gateway: MakeGateway, upstream_process: Any, hook: str) -> None:
    upstream_process.reset()
    keys = ["sk-aaaa-0001", "sk-bbbb-0002"]
    running = gateway(workers=2, upstream=upstream_process, keys=keys, BRIDGE_ALERT_WEBHOOK=hook)
    upstream_process.script("status=401", key=keys[0])

    def is_told() -> bool:
        ask(running, "mock-n2-d0")
        return bool(Hook.bodies)

    until(is_told, within_s=60)
    time.sleep(2 * LOOK_EVERY_S + 1)

    (body,) = map(orjson.loads, Hook.bodies)
    assert body["credentials"] == [{"upstream": "scripted", "credential": "key-1", "cause": "wrong_key"}]
