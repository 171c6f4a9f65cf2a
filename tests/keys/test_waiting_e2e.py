"""Calls that may wait: in a real process, against the scripted upstream."""

import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import orjson
import pytest

from tests.e2e.client import ask, question
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import at_once, until
from tests.upstream import ScriptedUpstream

pytestmark = pytest.mark.slow

MODEL = "mock-n2-d0"
KEYS = ["sk-aaaa-0001", "sk-bbbb-0002"]


def waiting(running: RunningGateway) -> int:
    text = httpx.get(f"{running.base_url}/metrics", trust_env=False).text
    found = re.search(r"^bridge_calls_waiting(?:\{.*\})? (\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0


def sent(running: RunningGateway) -> socket.socket:
    """Send a streaming call and leave the connection to the caller."""
    url = httpx.URL(running.base_url)
    body = orjson.dumps({**question(MODEL), "stream": True})
    head = (
        f"POST /v1/messages HTTP/1.1\r\nhost: {url.host}\r\nx-api-key: {running.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection((url.host, url.port))
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("keys", [KEYS, KEYS[:1]])
def test_calls_wait_for_the_rest_to_end_and_are_served_once(
    gateway: MakeGateway, scripted: ScriptedUpstream, keys: list[str]
) -> None:
    running = gateway(upstream=scripted, keys=keys, BRIDGE_QUEUE_S="30")
    running.hurry(first_byte_timeout_s=20, idle_timeout_s=20)
    scripted.script("status=429,retry_after=3", times=len(keys))
    began = time.monotonic()

    seen = at_once(10, lambda number: ask(running, MODEL, f"question {number}"), threads=10)

    assert all(one.ended_well for one in seen)
    assert time.monotonic() - began >= 3
    # Who met the 429 was sent twice, the others once: nobody asked in vain while all rested.
    assert len(scripted.attempts()) == 10 + len(keys)
    records = running.settled()
    assert sorted(record["attempt"] for record in records).count(1) == 10
    # Waiting is queueing; what was sent at once was hardly queued.
    assert max(record["queued_ms"] for record in records) >= 2900
    assert min(record["queued_ms"] for record in records) < 1000


def test_a_stream_gets_no_headers_while_it_waits(gateway: MakeGateway, scripted: ScriptedUpstream) -> None:
    running = gateway(upstream=scripted, keys=KEYS[:1], BRIDGE_QUEUE_S="60")
    running.hurry(first_byte_timeout_s=20, idle_timeout_s=20)
    scripted.script("status=429,retry_after=4", times=1)
    with sent(running) as connection:
        until(lambda: waiting(running) == 1, within_s=10)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)

        connection.settimeout(20)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")


def test_who_leaves_frees_the_place_and_who_finds_none_is_told_at_once(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    running = gateway(upstream=scripted, keys=KEYS, BRIDGE_QUEUE_S="300", BRIDGE_QUEUE_MAX="1")
    scripted.script("status=429,retry_after=120")
    with sent(running):
        until(lambda: waiting(running) == 1, within_s=10)
        refused = ask(running, MODEL)
        assert (refused.status, refused.headers["retry-after"]) == (429, "60")

    until(lambda: waiting(running) == 0, within_s=10)
    with sent(running):
        until(lambda: waiting(running) == 1, within_s=10)


def test_who_would_wait_longer_than_allowed_is_told_at_once(gateway: MakeGateway, scripted: ScriptedUpstream) -> None:
    running = gateway(upstream=scripted, keys=KEYS, BRIDGE_QUEUE_S="5")
    scripted.script("status=429,retry_after=50")
    with ThreadPoolExecutor() as threads:
        seen = threads.submit(ask, running, MODEL).result(timeout=5)

    assert seen.status == 429
    assert waiting(running) == 0
