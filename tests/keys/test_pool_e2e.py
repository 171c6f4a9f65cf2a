"""The pool in real processes, two workers where two matter, against the scripted upstream."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.client import ask, opened, question
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream

pytestmark = pytest.mark.slow

MODEL = "mock-n2-d0"


@pytest.fixture
def scripted(upstream_process: ScriptedUpstream) -> ScriptedUpstream:
    upstream_process.reset()
    return upstream_process


def calls_by_key(scripted: ScriptedUpstream, keys: list[str]) -> Counter[str]:
    names = {hashlib.sha256(key.encode()).hexdigest(): key for key in keys}
    return Counter(names[attempt["key_sha256"]] for attempt in scripted.attempts())


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(max_workers=20) as threads:
        return list(threads.map(work, range(count)))


def test_a_429_holds_in_both_workers_while_the_other_credential_serves(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    keys = ["sk-aaaa-0001", "sk-bbbb-0002"]
    running = gateway(workers=2, upstream=scripted, keys=keys)
    scripted.script("status=429,retry_after=7", key=keys[0])
    while not calls_by_key(scripted, keys)[keys[0]]:
        ask(running, MODEL)
    cooled_at = time.monotonic()
    scripted.reset()
    time.sleep(1)

    while time.monotonic() < cooled_at + 6:
        assert all(seen.ended_well for seen in at_once(10, lambda _: ask(running, MODEL)))
        time.sleep(0.1)
    assert set(calls_by_key(scripted, keys)) == {keys[1]}

    time.sleep(cooled_at + 8.5 - time.monotonic())
    at_once(20, lambda _: ask(running, MODEL))
    assert set(calls_by_key(scripted, keys)) == set(keys)


def test_all_cooling_is_answered_at_once(gateway: MakeGateway, scripted: ScriptedUpstream) -> None:
    keys = ["sk-aaaa-0001", "sk-bbbb-0002"]
    running = gateway(upstream=scripted, keys=keys)
    scripted.script("status=429,retry_after=30")
    ask(running, MODEL)
    ask(running, MODEL)
    calls = len(scripted.attempts())

    began = time.monotonic()
    seen = ask(running, MODEL)
    took_s = time.monotonic() - began

    assert seen.status == 429
    assert 20 <= int(seen.headers["retry-after"]) <= 33
    assert took_s < 0.15  # a client's start included
    assert len(scripted.attempts()) == calls


def test_a_failing_upstream_is_not_stormed_and_heals_by_itself(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    keys = [f"sk-many-{number:04}" for number in range(6)]
    running = gateway(workers=2, upstream=scripted, keys=keys)
    scripted.script("status=500")
    seen = at_once(100, lambda number: ask(running, MODEL, f"question {number}"))
    assert not any(one.ended_well for one in seen)
    assert len(scripted.attempts()) <= 1.25 * 100 + 3  # each of two workers begins with three

    scripted.reset()
    healed_at = time.monotonic()
    while len(calls_by_key(scripted, keys)) < len(keys):
        assert time.monotonic() < healed_at + 60, calls_by_key(scripted, keys)
        ask(running, MODEL)


def test_a_poison_prompt_ejects_nobody(gateway: MakeGateway, scripted: ScriptedUpstream) -> None:
    keys = [f"sk-many-{number:04}" for number in range(4)]
    running = gateway(upstream=scripted, keys=keys)
    headers_of_one = {"metadata": {"user_id": "user_1_account__session_0b5c8b9e-0000-4000-8000-000000000001"}}
    for _ in range(30):
        ask(running, MODEL)  # earns retries
    for _ in range(12):
        before = len(scripted.attempts())
        scripted.script("status=500")
        assert not ask(running, MODEL, "poison", **headers_of_one).ended_well
        assert len(scripted.attempts()) - before <= 2
        scripted.script("ok")
        assert ask(running, MODEL, "fine").ended_well

    states = running.sql("SELECT state FROM keys_credentialstate WHERE state <> 'ready'")
    assert states == []


def test_the_claims_of_a_killed_worker_are_gone_within_fifteen_seconds(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    running = gateway(workers=2, upstream=scripted, keys=("sk-one",))
    is_over = threading.Event()

    def stream(_: int) -> None:
        try:
            with opened(running, {**question("mock-n2000-d20"), "stream": True}) as answer:
                for _chunk in answer.iter_raw():
                    if is_over.is_set():
                        return
        except Exception:  # noqa: S110  (its worker was killed)
            pass

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()

    def claims() -> dict[str, int]:
        rows = running.sql(
            "SELECT id, (SELECT sum((v.value->>0)::int) FROM jsonb_each(loads) v) AS open FROM keys_worker"
            " WHERE heartbeat_at > now() - interval '10 s'"
        )
        return {row["id"]: row["open"] or 0 for row in rows}

    until = time.monotonic() + 10
    while sum(claims().values()) < 12:
        assert time.monotonic() < until, claims()
        time.sleep(0.2)

    victim = next(pid for pid in running.worker_pids() if any(name.endswith(f":{pid}") for name in claims()))
    running.kill9(victim)
    killed_at = time.monotonic()
    while any(name.endswith(f":{victim}") for name in claims()):
        assert time.monotonic() < killed_at + 15
        time.sleep(0.2)
    is_over.set()
    for thread in threads:
        thread.join(timeout=10)


def test_the_encryption_key_is_rotated_under_twenty_streams(gateway: MakeGateway, scripted: ScriptedUpstream) -> None:
    keys = [f"sk-many-{number:04}" for number in range(5)]
    running = gateway(workers=2, upstream=scripted, keys=keys)
    running.hurry(first_byte_timeout_s=20, idle_timeout_s=20)  # a busy machine is not what is tested
    rotated = threading.Event()

    def talk(_: int) -> list[str]:
        failed = []
        while not rotated.is_set():
            seen = ask(running, "mock-n10-d10")
            if not seen.ended_well:
                failed.append(str(seen.error))
        return failed

    def rotate() -> str:
        time.sleep(0.5)
        try:
            return running.command("rotate_encryption_key", "--new")
        finally:
            time.sleep(1.5)
            rotated.set()

    with ThreadPoolExecutor(max_workers=21) as threads:
        rotation = threads.submit(rotate)
        failures = [error for failed in threads.map(talk, range(20)) for error in failed]

    assert rotation.result() == "Sealed 5 secrets anew under k2; no other key is in use"
    assert failures == []
    assert {
        row["key"] for row in running.sql("SELECT split_part(sealed_secret, '.', 2) AS key FROM keys_credential")
    } == {"k2"}


def test_a_credential_deleted_in_use_finishes_its_stream_and_keeps_its_record(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    running: RunningGateway = gateway(upstream=scripted, keys=("sk-one",))
    with opened(running, {**question("mock-n40-d20"), "stream": True}) as answer:
        chunks = answer.iter_raw()
        next(chunks)
        running.execute("DELETE FROM keys_credentialstate")
        running.execute("DELETE FROM keys_credential")
        text = b"".join(chunks).decode()

    assert "message_stop" in text
    record = running.settled(1)[0]
    assert (record["state"], record["credential_label"]) == ("ok", "key-1")
