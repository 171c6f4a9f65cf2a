"""What the workers share about credentials and upstreams, in Postgres.

States are written when they change, by conditional update, and read on notice and by polling. Each worker also
keeps a heartbeat with its load; a worker whose heartbeat stopped is not counted any more. Nothing here is on the
path of a request: changes wait in memory until Postgres takes them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from keys.listening import Follower
from keys.pool.health import Health
from keys.pool.load import Crew
from keys.pool.verdicts import Cause, State
from keys.tasks import end_task

logger = logging.getLogger(__name__)

CHANNEL = "bridge_states"
POLL_S = 0.8
HEARTBEAT_S = 1.0
START_TIMEOUT_S = 20
#: How long a worker that joins others waits, so that they have heard of it and keep to their shares, and it of their use.
JOIN_S = 2.0
#: A worker that was silent for so long holds no claims.
LEASE_S = 10
FORGET_S = 3600
#: Successes that change no state are noted this seldom.
SUCCESS_FLUSH_S = 10.0


class Subject(Enum):
    """Whose state it is; the value is the table and its column."""

    CREDENTIAL = ("keys_credentialstate", "credential_id", "keys_credential")
    UPSTREAM = ("keys_upstreamstate", "upstream_id", "keys_upstream")


#: (whose, id, model or "")
StateKey = tuple[Subject, int, str]
#: in flight, sends, tokens
Figures = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What Postgres holds at one moment."""

    read_at: float
    states: Mapping[StateKey, Health]
    #: The other workers' loads by credential, added up.
    others: Mapping[int, Figures]
    crew: Crew


#: The newest change wins, except that a rest that ends later is never cut short by another rest.
WRITE = """
INSERT INTO {table} ({column}, model_name, state, until, cause, failures, rests, last_success_at, last_failure_at,
                     changed_at)
SELECT id, %(model)s, %(state)s, to_timestamp(%(until)s), %(cause)s, %(failures)s, %(rests)s,
       to_timestamp(%(success)s), to_timestamp(%(failure)s), to_timestamp(%(changed)s)
FROM {owner} WHERE id = %(id)s
ON CONFLICT ({column}, model_name) DO UPDATE SET
  state = EXCLUDED.state,
  until = CASE WHEN EXCLUDED.state = 'ready' THEN EXCLUDED.until ELSE greatest({table}.until, EXCLUDED.until) END,
  cause = EXCLUDED.cause, failures = EXCLUDED.failures, rests = EXCLUDED.rests,
  last_success_at = greatest({table}.last_success_at, EXCLUDED.last_success_at),
  last_failure_at = greatest({table}.last_failure_at, EXCLUDED.last_failure_at),
  changed_at = greatest({table}.changed_at, EXCLUDED.changed_at)
WHERE {table}.changed_at <= EXCLUDED.changed_at
   OR (EXCLUDED.state <> 'ready' AND {table}.state <> 'ready' AND EXCLUDED.until > {table}.until)
"""
READ = """
SELECT {column}, model_name, state, extract(epoch FROM until), cause, failures, rests,
       extract(epoch FROM last_success_at), extract(epoch FROM last_failure_at), extract(epoch FROM changed_at)
FROM {table} WHERE state <> 'ready' OR failures > 0 OR changed_at > now() - interval '1 minute'
"""
NOTE_SUCCESS = """
UPDATE keys_credentialstate s SET last_success_at = greatest(last_success_at, to_timestamp(n.at))
FROM unnest(%s::bigint[], %s::float8[]) AS n (id, at) WHERE s.credential_id = n.id AND s.model_name = ''
"""
ADD_SUCCESS = """
INSERT INTO keys_credentialstate (credential_id, model_name, state, cause, failures, rests, last_success_at)
SELECT n.id, '', 'ready', '', 0, 0, to_timestamp(n.at)
FROM unnest(%s::bigint[], %s::float8[]) AS n (id, at) JOIN keys_credential c ON c.id = n.id
WHERE NOT EXISTS (SELECT 1 FROM keys_credentialstate s WHERE s.credential_id = n.id AND s.model_name = '')
ON CONFLICT DO NOTHING
"""
BEAT = """
INSERT INTO keys_worker (id, heartbeat_at, loads) VALUES (%s, now(), %s)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = EXCLUDED.heartbeat_at, loads = EXCLUDED.loads
"""
READ_WORKERS = "SELECT id, loads FROM keys_worker WHERE id <> %s AND heartbeat_at > now() - interval '1 s' * %s"
FORGET_WORKERS = "DELETE FROM keys_worker WHERE heartbeat_at < now() - interval '1 s' * %s"
#: States of models that nothing happened to for long: a name that a client made up stays nowhere.
FORGET_STATES = "DELETE FROM {table} WHERE model_name <> '' AND changed_at < now() - interval '7 days'"


class StateStore:
    """Carries states and loads between this worker and Postgres."""

    def __init__(
        self,
        dsn: str,
        worker_id: str,
        *,
        hear: Callable[[Shared], None],
        tell: Callable[[], Mapping[int, Figures]],
        now: Callable[[], float],
    ) -> None:
        """Args:
        hear: Called with what Postgres holds, each time it was read.
        tell: Asked for this worker's own load, for the heartbeat.
        """
        self._dsn = dsn
        self._worker_id = worker_id
        self._hear = hear
        self._tell = tell
        self._now = now
        self._pending: dict[StateKey, Health] = {}
        self._successes: dict[int, float] = {}
        self._successes_at = 0.0
        self._wanted = asyncio.Event()
        self._known = asyncio.Event()
        self._follower = Follower(dsn, CHANNEL, self._refresh, poll_s=POLL_S)
        self._writer: asyncio.Task[None] | None = None
        self._has_company = False

    async def start(self) -> None:
        """Join the other workers: make oneself known first, then read what they told, so that one of two sees the other.

        Raises:
            TimeoutError: Postgres gave no answer in time.
        """
        self._writer = asyncio.create_task(self._write_for_ever(), name="keys state writer")
        await asyncio.wait_for(self._known.wait(), START_TIMEOUT_S)
        self._follower.start()
        await asyncio.wait_for(self._follower.ready.wait(), START_TIMEOUT_S)
        if self._has_company:
            await asyncio.sleep(JOIN_S)

    async def close(self) -> None:
        """Write what is pending, give up the lease, and stop."""
        await self._follower.close()
        if self._writer is None:
            return
        await end_task(self._writer)
        with contextlib.suppress(psycopg.Error, OSError, TimeoutError):
            async with asyncio.timeout(5), await self._connect() as connection:
                await self._write_pending(connection)
                await connection.execute("DELETE FROM keys_worker WHERE id = %s", [self._worker_id])

    def put(self, key: StateKey, health: Health) -> None:
        """Have a changed state written soon; a newer one replaces it."""
        self._pending[key] = health
        self._wanted.set()

    def note_success(self, credential_id: int, at: float) -> None:
        """Have the time of a success noted, sooner or later."""
        self._successes[credential_id] = at

    def is_pending(self, key: StateKey) -> bool:
        return key in self._pending

    async def _refresh(self, connection: psycopg.AsyncConnection[Any], noticed: bool) -> None:
        read_at = self._now()
        states: dict[StateKey, Health] = {}
        for subject in Subject:
            table, column, _ = subject.value
            cursor = await connection.execute(READ.format(table=table, column=column).encode())
            states |= {(subject, row[0], row[1]): _health(row) for row in await cursor.fetchall()}
        cursor = await connection.execute(READ_WORKERS.encode(), [self._worker_id, LEASE_S])
        loads = dict(await cursor.fetchall())
        self._has_company = bool(loads)
        crew = Crew(size=len(loads) + 1, index=sorted([*loads, self._worker_id]).index(self._worker_id))
        self._hear(Shared(read_at=read_at, states=states, others=_added_up(loads.values()), crew=crew))

    async def _write_for_ever(self) -> None:
        while True:
            try:
                async with await self._connect() as connection:
                    await self._forget(connection)
                    while True:
                        await self._write_pending(connection)
                        await self._beat(connection)
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(self._wanted.wait(), HEARTBEAT_S)
            except (psycopg.Error, OSError) as exc:
                logger.warning("states are not written now: %s", type(exc).__name__)
                await asyncio.sleep(HEARTBEAT_S)

    async def _forget(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Delete what is of no use to anybody any more."""
        await connection.execute(FORGET_WORKERS.encode(), [FORGET_S])
        for subject in Subject:
            await connection.execute(FORGET_STATES.format(table=subject.value[0]).encode())

    async def _write_pending(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._wanted.clear()
        for key, health in list(self._pending.items()):
            subject, owner_id, model = key
            table, column, owner = subject.value
            query = WRITE.format(table=table, column=column, owner=owner)
            await connection.execute(query.encode(), _parameters(owner_id, model, health))
            if self._pending.get(key) is health:
                del self._pending[key]

    async def _beat(self, connection: psycopg.AsyncConnection[Any]) -> None:
        loads = {str(credential_id): list(figures) for credential_id, figures in self._tell().items()}
        await connection.execute(BEAT.encode(), [self._worker_id, Jsonb(loads)])
        self._known.set()
        if self._successes and self._now() - self._successes_at >= SUCCESS_FLUSH_S:
            self._successes_at = self._now()
            successes, self._successes = self._successes, {}
            columns = [list(successes), list(successes.values())]
            await connection.execute(NOTE_SUCCESS.encode(), columns)
            await connection.execute(ADD_SUCCESS.encode(), columns)

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(
            self._dsn,
            autocommit=True,
            connect_timeout=5,
            options="-c statement_timeout=5000 -c lock_timeout=2000",
            application_name="bridge states",
        )


def _parameters(owner_id: int, model: str, health: Health) -> dict[str, Any]:
    return {
        "id": owner_id,
        "model": model.replace("\0", "")[:200],
        "state": health.state.value,
        "until": health.until,
        "cause": health.cause.value if health.cause else "",
        "failures": health.failures,
        "rests": health.rests,
        "success": health.last_success_at,
        "failure": health.last_failure_at,
        "changed": health.changed_at,
    }


def _health(row: tuple[Any, ...]) -> Health:
    _, _, state, until, cause, failures, rests, success, failure, changed = row
    return Health(
        state=State(state),
        until=_float(until),
        cause=Cause(cause) if cause in Cause else None,
        failures=failures,
        rests=rests,
        last_success_at=_float(success),
        last_failure_at=_float(failure),
        changed_at=float(changed),
    )


def _float(number: Any) -> float | None:
    return None if number is None else float(number)


def _added_up(loads: Iterable[dict[str, list[int]]]) -> dict[int, Figures]:
    total: dict[int, Figures] = {}
    for load in loads:
        for credential_id, (in_flight, sends, tokens) in load.items():
            known = total.get(int(credential_id), (0, 0, 0))
            total[int(credential_id)] = (known[0] + in_flight, known[1] + sends, known[2] + tokens)
    return total
