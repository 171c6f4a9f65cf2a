"""Two workers and one Postgres: what one learns the other knows within a second."""

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
from channels.db import database_sync_to_async

from keys.credentials import add_secrets
from keys.directory import Directory
from keys.dispatch import Attempt, Claim, Dispatcher, Kind, Outcome, Refusal
from keys.entries import RouteEntry
from keys.models import Credential, Route, Upstream
from keys.pool.verdicts import State
from keys.ring import key_ring
from keys.store import JOIN_S
from tests.keys.pools import OK, answer
from tests.usage.waiting import PATIENCE_S, eventually

COUNT = 4


class Workers:
    """Two dispatchers with a directory each, as in two processes."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.directories = [Directory(dsn, key_ring()) for _ in range(2)]
        self.one, self.two = (
            Dispatcher(dsn, directory, f"worker-{number}", seed=number)
            for number, directory in enumerate(self.directories)
        )

    async def start(self) -> None:
        for part in (*self.directories, self.one, self.two):
            await part.start()

        await eventually(lambda: all(worker._mirror.known.crew.size == 2 for worker in (self.one, self.two)))

    async def close(self) -> None:
        for part in (self.one, self.two, *self.directories):
            await part.close()

    def route(self) -> RouteEntry:
        route = self.directories[0].resolve("m")
        assert route is not None
        return route

    def hold(self, worker: Dispatcher, session_id: str = "") -> Claim | None:
        """Begin a request and leave it open; None when it is refused."""
        attempts = worker.attempts(self.route(), session_id=session_id)
        attempt: Attempt | None = next(attempts, None)
        claim = worker.claim(attempt) if attempt else None
        attempts.close()
        return claim

    def refusal(self, worker: Dispatcher) -> Refusal | None:
        """Tell how a request would be refused; None when it wouldn't."""
        attempts = worker.attempts(self.route())
        try:
            next(attempts)
        except StopIteration as stop:
            refusal: Refusal = stop.value
            return refusal
        attempts.close()
        return None

    async def sql(self, query: str) -> list[tuple[object, ...]]:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            cursor = await connection.execute(query.encode())
            return await cursor.fetchall() if cursor.description else []


@pytest.fixture
async def workers(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workers]:
    """Two that know of each other."""
    monkeypatch.setattr("keys.store.JOIN_S", 0.0)

    @database_sync_to_async
    def fill() -> None:
        acme = Upstream.objects.create(name="acme", base_url="https://acme.example/v1")
        add_secrets(acme, [f"sk-{number}-secret" for number in range(COUNT)])
        Route.objects.create(alias="m").targets.create(upstream=acme)

    await fill()
    workers = Workers(dsn)
    await workers.start()
    yield workers
    await workers.close()


async def test_a_credential_cooled_by_one_worker_is_left_alone_by_the_other(workers: Workers) -> None:
    claim = workers.hold(workers.one)
    assert claim is not None
    cooled = claim.attempt.credential.id

    claim.release(answer(429, retry_after="30"))

    await eventually(lambda: workers.two.health(cooled).state is State.COOLING)
    used = {claim.attempt.credential.id for _ in range(12) if (claim := workers.hold(workers.two))}
    assert cooled not in used
    assert len(used) == COUNT - 1


async def test_a_success_in_one_worker_restores_for_the_other(workers: Workers) -> None:
    claim = workers.hold(workers.one)
    assert claim is not None
    credential_id = claim.attempt.credential.id
    claim.release(answer(429, retry_after="0.2"))
    await eventually(lambda: workers.two.health(credential_id).state is State.COOLING)
    await eventually(lambda: workers.two._now() > (workers.two.health(credential_id).until or 0))

    claims = [claim for _ in range(COUNT) if (claim := workers.hold(workers.two))]
    assert credential_id in {claim.attempt.credential.id for claim in claims}
    for claim in claims:
        claim.release(OK)

    await eventually(lambda: workers.one.health(credential_id).state is State.READY)


async def test_states_outlive_a_restart(workers: Workers) -> None:
    claim = workers.hold(workers.one)
    assert claim is not None
    claim.release(answer(402))
    await eventually(lambda: workers.two.health(claim.attempt.credential.id).state is State.QUARANTINED)

    fresh = Dispatcher(workers.dsn, workers.directories[0], "worker-3")
    await fresh.start()
    try:
        assert fresh.health(claim.attempt.credential.id).state is State.QUARANTINED
    finally:
        await fresh.close()


async def test_a_lost_notice_only_delays(workers: Workers) -> None:
    credential_id = workers.directories[0].credentials(workers.route().targets[0].upstream.id)[0].id
    async with await psycopg.AsyncConnection.connect(workers.dsn, autocommit=True) as connection:
        await connection.execute("SET session_replication_role = replica")  # no trigger, no notice
        await connection.execute(
            "INSERT INTO keys_credentialstate (credential_id, model_name, state, until, cause, failures, rests)"
            " VALUES (%s, '', 'cooling', now() + interval '1 minute', 'rate_limit', 1, 1)",
            [credential_id],
        )

    await eventually(lambda: workers.two.health(credential_id).state is State.COOLING)


async def test_a_state_that_an_admin_deletes_is_forgotten_by_all(workers: Workers) -> None:
    claim = workers.hold(workers.one)
    assert claim is not None
    credential_id = claim.attempt.credential.id
    claim.release(answer(402))
    await eventually(lambda: workers.two.health(credential_id).state is State.QUARANTINED)

    await workers.sql("DELETE FROM keys_credentialstate")

    for worker in (workers.one, workers.two):
        await eventually(lambda worker=worker: worker.health(credential_id).state is State.READY)


async def test_the_longer_of_two_rests_stays(workers: Workers) -> None:
    one, two = workers.hold(workers.one, "s"), workers.hold(workers.two, "s")
    assert one is not None
    assert two is not None
    assert one.attempt.credential.id == two.attempt.credential.id

    one.release(answer(429, retry_after="50"))
    two.release(answer(429, retry_after="1"))

    both = (workers.one, workers.two)
    await eventually(lambda: not any(worker._mirror.store._pending for worker in both if worker._mirror.store))
    for worker in both:
        await eventually(
            lambda worker=worker: (worker.health(one.attempt.credential.id).until or 0) - worker._now() > 30
        )


async def test_idle_workers_begin_with_different_credentials(workers: Workers) -> None:
    one, two = workers.hold(workers.one), workers.hold(workers.two)

    assert one is not None
    assert two is not None
    assert one.attempt.credential.id != two.attempt.credential.id


async def test_claims_of_one_worker_count_in_the_other(workers: Workers) -> None:
    claims = [claim for _ in range(COUNT * 2) if (claim := workers.hold(workers.one))]
    busy = [claim.attempt.credential.id for claim in claims]
    await eventually(lambda: all(workers.two.in_flight(credential_id) == 2 for credential_id in busy))

    for claim in claims:
        claim.release(OK)

    await eventually(lambda: not any(workers.two.in_flight(credential_id) for credential_id in busy))


async def test_claims_of_a_worker_that_died_are_void(workers: Workers) -> None:
    await workers.sql(
        "INSERT INTO keys_worker (id, heartbeat_at, loads) SELECT 'dead', now() + interval '1 hour',"
        " jsonb_object_agg(id::text, '[5, 5, 0]'::jsonb) FROM keys_credential"
    )
    ids = [row[0] for row in await workers.sql("SELECT id FROM keys_credential")]
    await eventually(lambda: all(workers.one.in_flight(credential_id) == 5 for credential_id in ids))

    await workers.sql("UPDATE keys_worker SET heartbeat_at = now() - interval '9 s' WHERE id = 'dead'")
    await eventually(lambda: not any(workers.one.in_flight(credential_id) for credential_id in ids))


async def test_a_limit_holds_for_both_workers_together(workers: Workers) -> None:
    await database_sync_to_async(Credential.objects.update)(concurrency=3)
    upstream_id = workers.route().targets[0].upstream.id
    await eventually(lambda: all(d.credentials(upstream_id)[0].concurrency == 3 for d in workers.directories))

    open_now = [0, 0]
    for _ in range(3):
        for number, worker in enumerate((workers.one, workers.two)):
            while workers.hold(worker) is not None:
                open_now[number] += 1
        await asyncio.sleep(0.7)

    assert sum(open_now) == 3 * COUNT
    assert open_now[0] == open_now[1]


async def test_a_worker_that_joins_knows_what_the_others_used_before_it_serves(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keys.store.JOIN_S", JOIN_S)
    # So that a busy machine, too, gets it told meanwhile.
    monkeypatch.setattr("keys.store.HEARTBEAT_S", 0.2)
    monkeypatch.setattr("keys.store.POLL_S", 0.2)
    await database_sync_to_async(Credential.objects.update)(rpm=6)
    upstream_id = workers.route().targets[0].upstream.id
    await eventually(lambda: workers.directories[0].credentials(upstream_id)[0].rpm == 6)
    await workers.two.close()
    await eventually(lambda: workers.one._mirror.known.crew.size == 1)
    sent = [0, 0]
    while workers.hold(workers.one) is not None:
        sent[0] += 1
    assert sent[0] == 6 * COUNT

    joining = Dispatcher(workers.dsn, workers.directories[0], "worker-3")
    await joining.start()
    while workers.hold(joining) is not None:
        sent[1] += 1
    await joining.close()

    assert sent[1] == 0


async def test_a_database_that_is_away_loses_no_state(workers: Workers) -> None:
    claim = workers.hold(workers.one)
    assert claim is not None
    await workers.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'bridge%states%'"
    )

    claim.release(answer(402))

    assert workers.one.health(claim.attempt.credential.id).state is State.QUARANTINED
    await eventually(lambda: workers.two.health(claim.attempt.credential.id).state is State.QUARANTINED)


async def test_a_state_of_a_deleted_credential_is_dropped(workers: Workers) -> None:
    claim, other = workers.hold(workers.one), workers.hold(workers.one)
    assert claim is not None
    assert other is not None
    await database_sync_to_async(Credential.objects.filter(pk=claim.attempt.credential.id).delete)()

    assert claim.attempt.credential.secret().startswith("sk-")  # the attempt goes on with what it has
    claim.release(answer(402))
    other.release(answer(402))

    await eventually(lambda: workers.two.health(other.attempt.credential.id).state is State.QUARANTINED)
    rows = await workers.sql("SELECT credential_id FROM keys_credentialstate")
    assert rows == [(other.attempt.credential.id,)]


async def test_all_cooling_is_refused_by_both_within_fifty_milliseconds(workers: Workers) -> None:
    rested_at = time.monotonic()
    for _ in range(COUNT):
        claim = workers.hold(workers.one)
        if claim is not None:
            claim.release(answer(429, retry_after="20"))

    for worker in (workers.one, workers.two):
        await eventually(lambda worker=worker: workers.refusal(worker))
        took_s = []
        for _ in range(10):  # the machine may be busy with something else during some of them
            began = time.perf_counter()
            refusal = workers.refusal(worker)
            took_s.append(time.perf_counter() - began)
        assert min(took_s) < 0.05
        assert refusal is not None
        assert refusal.status == 429
        assert refusal.retry_after_s is not None
        assert 16 <= refusal.retry_after_s + time.monotonic() - rested_at <= 24


async def test_the_time_of_a_success_is_noted_for_the_admin(workers: Workers) -> None:
    claim = workers.hold(workers.one)
    assert claim is not None
    claim.release(Outcome(kind=Kind.OK, status=200))

    noted = "SELECT last_success_at IS NOT NULL FROM keys_credentialstate WHERE model_name = ''"
    async with asyncio.timeout(PATIENCE_S):
        while not (rows := await workers.sql(noted)):  # noqa: ASYNC110  (it tells nobody)
            await asyncio.sleep(0.05)
    assert rows == [(True,)]
