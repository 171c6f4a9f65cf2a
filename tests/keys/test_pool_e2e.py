"""The pool in real processes, two workers where two matter, against the scripted upstream.

A busy machine must not matter: what happens is waited for, and times are taken where the upstream saw the calls.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import httpx
import pytest

from tests.e2e.client import TLS, ask, opened, question
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import at_once, calls_by_key, key_names, until
from tests.upstream import ScriptedUpstream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MODEL = "mock-n2-d0"
#: A worker hears of another's news within a second; a busy machine gets some more.
NEWS_S = 2.0


def resting(running: RunningGateway) -> list[str]:
    rows = running.sql(
        "SELECT c.label FROM keys_credentialstate s JOIN keys_credential c ON c.id = s.credential_id"
        " WHERE s.state <> 'ready' AND s.until > now()"
    )
    return [row["label"] for row in rows]


def test_a_429_holds_in_both_workers_while_the_other_credential_serves(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    keys = ["sk-aaaa-0001", "sk-bbbb-0002"]
    running = gateway(workers=2, upstream=scripted, keys=keys)
    running.hurry(first_byte_timeout_s=20, idle_timeout_s=20)
    scripted.script("status=429,retry_after=7", key=keys[0])
    while not calls_by_key(scripted, keys)[keys[0]]:
        ask(running, MODEL)
    until(lambda: resting(running), within_s=5, every_s=0.02)
    time.sleep(NEWS_S)
    names = key_names(keys)
    cooled_at = max(one["started_at"] for one in scripted.attempts() if names[one["key_sha256"]] == keys[0])
    scripted.reset()

    def a_serves() -> bool:
        assert all(seen.ended_well for seen in at_once(10, lambda _: ask(running, MODEL)))
        return keys[0] in calls_by_key(scripted, keys)

    until(a_serves, within_s=30)

    back_at = min(one["started_at"] for one in scripted.attempts() if names[one["key_sha256"]] == keys[0])
    assert back_at >= cooled_at + 7
    assert calls_by_key(scripted, keys)[keys[1]] >= 10


def test_all_cooling_is_answered_at_once_with_the_earliest_time(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    keys = ["sk-aaaa-0001", "sk-bbbb-0002"]
    running = gateway(upstream=scripted, keys=keys)
    scripted.script("status=429,retry_after=300", key=keys[0])
    scripted.script("status=429,retry_after=30", key=keys[1])
    until(lambda: ask(running, MODEL) and len(resting(running)) == 2, within_s=10)
    calls = len(scripted.attempts())

    with httpx.Client(base_url=running.base_url, verify=TLS, headers={"x-api-key": running.token}) as client:
        refused = [timed(client, question(MODEL)) for _ in range(30)]
        # Answered from memory, without an upstream, a record or the pool: as fast as the gateway can be here and now.
        fastest = [timed(client, question(MODEL) | {"max_tokens": 0}) for _ in range(30)]

    assert {answer.status_code for answer, _ in refused} == {429}
    assert all(20 <= int(answer.headers["retry-after"]) <= 33 for answer, _ in refused)
    assert {answer.status_code for answer, _ in fastest} == {200}
    assert len(scripted.attempts()) == calls
    assert median(took for _, took in refused) < max(0.05, 3 * median(took for _, took in fastest))


def timed(client: httpx.Client, body: dict[str, object]) -> tuple[httpx.Response, float]:
    began = time.monotonic()
    answer = client.post("/v1/messages", json=body)
    return answer, time.monotonic() - began


def test_a_failing_upstream_is_not_stormed_and_heals_by_itself(
    gateway: MakeGateway, scripted: ScriptedUpstream
) -> None:
    keys = [f"sk-many-{number:04}" for number in range(6)]
    running = gateway(workers=2, upstream=scripted, keys=keys)
    scripted.script("status=500")
    seen = at_once(160, lambda number: ask(running, MODEL, f"question {number}"))
    assert not any(one.ended_well for one in seen)
    assert len(scripted.attempts()) <= 1.25 * 160

    scripted.reset()
    healed_at = time.time()
    until(lambda: ask(running, MODEL) and len(calls_by_key(scripted, keys)) == len(keys), within_s=120)
    names = key_names(keys)
    firsts = {names[one["key_sha256"]]: one["started_at"] for one in reversed(scripted.attempts())}
    assert max(firsts.values()) <= healed_at + 60


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

    until(lambda: sum(claims().values()) == 12, within_s=30)
    # Whoever holds the most: so that there are claims to lose.
    victim = int(max(claims().items(), key=lambda item: item[1])[0].rpartition(":")[2])
    running.kill9(victim)
    until(lambda: not any(name.endswith(f":{victim}") for name in claims()), within_s=15)
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
            seen = ask(running, "script/frames=10,gap=200ms")
            if not seen.ended_well:
                failed.append(str(seen.error))
        return failed

    def open_now() -> int:
        return sum(attempt["ended"] is None for attempt in scripted.attempts())

    def rotate() -> str:
        try:
            until(lambda: open_now() >= 15, within_s=30)
            return running.command("rotate_encryption_key", "--new")
        finally:
            # Every worker serves with the new key before it is over.
            done = len(scripted.attempts())
            until(lambda: len(scripted.attempts()) >= done + 20, within_s=60)
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
