"""The pump: a client's call -> attempts -> its answer -> usage records.

A call is tried on one credential after another while nothing has gone to the client (`translator.tries`). Each
attempt is a `Run` (`translator.run`): recorded before the first byte leaves, settled exactly once.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keys.directory import Directory
from keys.dispatch import Dispatcher
from keys.entries import RouteEntry
from keys.last_refused import LastRefused
from keys.last_used import LastUsed
from keys.secrets import parse_key_ring
from keys.sightings import Sightings
from keys.tasks import end_task
from keys.waiting import WaitingRoom
from translator import refusals
from translator.bookkeeping import Caller
from translator.calls import Call, emulates_tools, most_output
from translator.catalogue import Catalogue
from translator.compaction import Compactor
from translator.core.calibration import Calibration
from translator.core.errors import ClientError
from translator.lateness import Lateness
from translator.metrics import STREAMS
from translator.replies import Whole
from translator.run import Run, Services
from translator.running import Places, RunningCall, RunningCalls
from translator.strangers import Strangers
from translator.stream import Stream
from translator.tries import CallFailed, Tries
from translator.upstream import UpstreamClient
from usage.alerts import Addresses
from usage.calibrations import CalibrationStore
from usage.idempotency import Idempotency
from usage.ledger import Admission, Ledger, LedgerUnavailable, OverBudget, RateLimited
from usage.pool_alerts import PoolAlerts
from usage.summaries import SummaryStore

if TYPE_CHECKING:
    from usage.credential_limits import CredentialLimits

__all__ = ["Answered", "CallFailed", "Gateway"]

#: A name that only a route for every name takes; one that passes names through gives it back.
ANY_NAME = "*"
#: How soon a running call notices that its token was revoked, in seconds.
REVOCATION_S = 5.0
#: What is known of tokens and routes may be so old before no new calls are asked for, in seconds.
KNOWN_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the client gets."""

    reply: Whole | Stream
    #: Headers about the token's limits.
    headers: Mapping[str, str]


class Gateway:
    """All that serves calls in one worker.

    Args:
        conninfo: libpq's connection string of the database.
        spool_dir: Where usage records wait while Postgres is away.
        encryption_keys: The key ring's text.
        allowed_upstreams: Private hosts and networks that upstreams may have.
        redis_url: Redis for exact limits across nodes; empty for none.
        queue_s: How long a call may wait for a credential that rests or is full; 0 for not at all.
        queue_max: So many may wait at once.
        alerts: Who is told of credentials that somebody must look after.
        summary_wait_s: How long a call may wait for a summary of its history.
        places: How many calls may run at once.
        worker: This process's name among the workers.
    """

    def __init__(
        self,
        *,
        conninfo: str,
        spool_dir: Path,
        encryption_keys: str,
        allowed_upstreams: Sequence[str],
        redis_url: str,
        worker: str,
        queue_s: float = 0,
        queue_max: int = 100,
        alerts: Addresses | None = None,
        summary_wait_s: float = 10,
        places: Places | None = None,
    ) -> None:
        self.directory = Directory(conninfo, parse_key_ring(encryption_keys))
        self.dispatcher = Dispatcher(conninfo, self.directory, worker)
        self.last_used = LastUsed(conninfo)
        self.last_refused = LastRefused(conninfo)
        self.sightings = Sightings(conninfo)
        self._alerts = PoolAlerts(conninfo, alerts or Addresses(), self.directory.sealed)
        self.ledger = Ledger(conninfo, spool_dir, worker, redis_url)
        self.upstream = UpstreamClient(allowed=allowed_upstreams)
        self.idempotency = Idempotency(conninfo, self.ledger.worker_id)
        self.catalogue = Catalogue(self.upstream)
        self.strangers = Strangers()
        self._is_leaving = False
        self._is_draining = False
        self._is_over = False
        self.calibration = Calibration()
        self._calibrations = CalibrationStore(conninfo, self.calibration)
        self._services = Services(
            dispatcher=self.dispatcher,
            ledger=self.ledger,
            upstream=self.upstream,
            calibration=self.calibration,
            credential_limits=_credential_limits_at(redis_url, self.dispatcher.count_elsewhere),
        )
        self._tries = Tries(self._services, WaitingRoom(jitter=random.random, size=queue_max, patience_s=queue_s))
        self.summaries = SummaryStore(conninfo)
        self._compactor = Compactor(
            self.summaries, calibration=self.calibration, answer=self.answer, wait_s=summary_wait_s
        )
        self._running = RunningCalls(places or Places())
        self._lateness = Lateness()
        self._warden: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._lateness.start()
        await self.directory.start()
        await self.dispatcher.start()
        await self.last_used.start()
        await self.last_refused.start()
        await self.sightings.start()
        await self.ledger.start()
        await self._calibrations.start()
        await self._alerts.start()
        self._warden = asyncio.create_task(self._end_calls_that_lost_their_right(), name="revoked tokens")

    async def aclose(self) -> None:
        """Settle what is left and close every connection."""
        await end_task(self._warden)
        await self._lateness.close()
        for running in self._running:
            if running.stream is not None:
                await running.stream.aclose()
        await self._compactor.close()
        await self._alerts.close()
        await self.dispatcher.close()
        await self.idempotency.close()
        await self.last_used.close()
        await self.last_refused.close()
        await self.sightings.close()
        await self.ledger.close()
        await self._calibrations.close()
        await self.upstream.aclose()
        await self.directory.close()

    def readiness(self) -> dict[str, Any]:
        """Say whether new calls can be taken; `ready` is the answer, the rest is why."""
        is_known = self.directory.age_s < KNOWN_S
        return {
            "ready": not self._is_leaving and self.ledger.is_ready and is_known,
            "draining": self._is_leaving,
            "ledger": self.ledger.is_ready,
            "directory_age_s": round(self.directory.age_s, 1),
            "undecryptable_credentials": self.directory.undecryptable,
        }

    def say_leaving(self) -> None:
        """Say that others should take the calls to come."""
        self._is_leaving = True

    def drain(self, after_s: float) -> None:
        """End the calls that still run after `after_s` seconds and take no more; until then, whoever gets through
        the port before it is closed is served."""
        if not self._is_draining:
            self._is_draining = True
            asyncio.get_running_loop().call_later(after_s, self._end)

    def _end(self) -> None:
        self._is_over = True
        self._running.stop_each(lambda _: refusals.SHUT_DOWN)

    async def answer(self, call: Call, caller: Caller) -> Answered:
        """Get the call answered: a whole body, or a stream whose first bytes are there.

        Raises:
            CallFailed: With what the client is told.
            TranslationError: The request can't be said to the upstream; the client's fault.
        """
        if self._is_over:
            raise CallFailed(refusals.SHUT_DOWN)
        route = self._route(call, caller)
        self.last_used.note(caller.token.id)
        known = self.directory.current(caller.token.id)
        is_in_scope = known is not None and known.may_use(call.alias)
        running = self._running.enter(caller.token, call.alias, is_in_scope=is_in_scope)
        try:
            answered = await running.until_stopped(self._answer(call, caller, route))
        except BaseException:
            self._running.leave(running)
            raise
        if isinstance(answered.reply, Stream):
            self._watch(answered.reply, running)
        else:
            self._running.leave(running)
        return answered

    async def _answer(self, call: Call, caller: Caller, route: RouteEntry) -> Answered:
        wish = await self._compactor.consider(call, caller, route)
        admission = await self._admit(call, caller, route)
        runs: list[Run] = []
        try:
            if wish is not None:
                await self._compactor.grant(wish, call, caller)
            reply = await self._tries.answer(call, caller, route, runs, admission)
        except BaseException:
            admission.release(tokens_used=_tokens(runs))
            raise
        if isinstance(reply, Stream):
            reply.when_closed.append(lambda: admission.release(tokens_used=_tokens(runs)))
        else:
            admission.release(tokens_used=_tokens(runs))
        return Answered(reply=reply, headers={**admission.headers, **runs[-1].headers})

    def input_factor(self, alias: str) -> float:
        """Return what to multiply an estimate of input by, for the upstream model that `alias` leads to first."""
        route = self.directory.resolve(alias)
        if route is None:
            return 1.0
        return self.calibration.factor((route.targets[0].upstream.id, route.targets[0].model_name))

    def emulates_tools(self, alias: str) -> bool:
        """Tell whether the upstream model that `alias` leads to first is told of tools in words."""
        route = self.directory.resolve(alias)
        return route is not None and emulates_tools(route.targets[0].upstream, route.targets[0].model)

    async def listed_models(self) -> tuple[str, ...]:
        """Return the models of the upstreams behind a route that takes every name through."""
        route = self.directory.resolve(ANY_NAME)
        if route is None:
            return ()
        through = [target for target in route.targets if target.model_name == ANY_NAME]
        usable = [
            (target.upstream, credential)
            for target in through
            for credential in self.directory.credentials(target.upstream.id)[:1]
            if not credential.defect
        ]
        lists = await asyncio.gather(*(self.catalogue.models(*pair) for pair in usable))
        return tuple(dict.fromkeys(name for names in lists for name in names))

    def _route(self, call: Call, caller: Caller) -> RouteEntry:
        route = self.directory.resolve(call.alias)
        if route is None:
            raise CallFailed(refusals.unknown_model(call.alias))
        if not caller.token.may_use(call.alias):
            raise CallFailed(refusals.forbidden_model(call.alias))
        return route

    async def _admit(self, call: Call, caller: Caller, route: RouteEntry) -> Admission:
        targets = (*route.targets, *route.fallbacks)
        output = most_output(call.max_tokens or 0, targets)
        places = [(target.upstream.id, target.model_name) for target in targets]
        try:
            return await self.ledger.admit(
                caller.token, call.alias, call.estimate + output, max_tokens=output, places=places
            )
        except OverBudget as exc:
            raise CallFailed(refusals.over_budget(exc)) from exc
        except RateLimited as exc:
            raise CallFailed(refusals.rate_limited(exc)) from exc
        except LedgerUnavailable as exc:
            raise CallFailed(refusals.NO_LEDGER) from exc

    def _watch(self, stream: Stream, running: RunningCall) -> None:
        running.stream = stream
        STREAMS.inc()

        def closed() -> None:
            STREAMS.dec()
            self._running.leave(running)

        stream.when_closed.append(closed)

    async def _end_calls_that_lost_their_right(self) -> None:
        while True:
            await asyncio.sleep(REVOCATION_S)
            self._running.stop_each(self._objection)

    def _objection(self, running: RunningCall) -> ClientError | None:
        """Say why a call that was let in would not be now; None when it would."""
        token = self.directory.current(running.token.id)
        if token is None:
            return refusals.REVOKED
        if running.is_in_scope and not token.may_use(running.alias):
            return refusals.forbidden_model(running.alias)
        return None


def _tokens(runs: Iterable[Run]) -> int:
    return sum(run.tokens_used for run in runs)


def _credential_limits_at(redis_url: str, tell: Callable[[bool], None]) -> "CredentialLimits | None":
    if not redis_url:
        return None
    from usage.credential_limits import CredentialLimits  # the `redis` extra may not be installed
    from usage.shared_limits import connect

    return CredentialLimits(connect(redis_url), tell)
