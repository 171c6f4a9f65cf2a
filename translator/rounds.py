"""Further rounds of one answer: its upstream cut it short of what the client allows, and is asked to go on.

Each round is an attempt of its own, with its own claim and its own record. What fails in one is no failure of the call:
the client gets what there is.
"""

from keys.dispatch import Attempt
from keys.entries import RouteEntry, Target
from keys.pool.facts import Kind
from translator.bookkeeping import Caller
from translator.calls import Call
from translator.core.errors import TranslationError
from translator.follow_up import FollowUp
from translator.replies import Begun, Failure, Whole
from translator.run import Run, Services
from usage.ledger import Admission, LedgerUnavailable


class Rounds:
    """The rounds of one call.

    Args:
        runs: The call's attempts, of which the last has begun to answer; later ones are added.
        admission: What the call holds of its budgets.
    """

    def __init__(self, services: Services, call: Call, caller: Caller, runs: list[Run], admission: Admission) -> None:
        self._services = services
        self._call = call
        self._caller = caller
        self._runs = runs
        self._admission = admission

    @property
    def last(self) -> Run:
        """The attempt of the round that is on."""
        return self._runs[-1]

    async def complete(self, whole: Whole) -> Whole:
        """Return the whole answer after as many rounds as it takes."""
        exchange = self.last.prepared.exchange
        while exchange.wants_more:
            reply = await self.next()
            whole = reply if isinstance(reply, Whole) else Whole(body=exchange.give_up())
        return whole

    async def next(self) -> Whole | Begun | None:
        """Ask the last attempt's upstream to go on; None when it can't be asked, or gave no answer."""
        before = self.last
        call = FollowUp(self._call, before.prepared, estimate=before.estimate)
        if not await self._admission.renew(call.estimate, call.max_tokens or 0, place=before.place):
            return None
        attempts = self._services.dispatcher.attempts(
            _same_model(before.attempt),
            session_id=call.session_id,
            estimate_tokens=call.estimate,
            kind=call.kind,
            waited_after=0,  # it is no new request of the client, and no retry
            asks_resting=False,
            prefers=before.attempt.credential.id,
        )
        try:
            attempt = next(attempts, None)
            return None if attempt is None else await self._run(call, attempt)
        finally:
            attempts.close()

    async def _run(self, call: FollowUp, attempt: Attempt) -> Whole | Begun | None:
        before = self.last
        number, free_since = len(self._runs) + 1, before.ended_at
        run = Run(self._services, call, self._caller, attempt, number, free_since=free_since)
        self._runs.append(run)
        try:
            reply = await run.start()
        except (LedgerUnavailable, TranslationError):
            self._runs.remove(run)
            return None
        if not isinstance(reply, Failure):
            return reply
        if reply.outcome.kind is Kind.FULL:
            self._runs.remove(run)
        return None


def _same_model(attempt: Attempt) -> RouteEntry:
    target = Target(upstream=attempt.upstream, model_name=attempt.model_name, model=attempt.model)
    return RouteEntry(alias=attempt.model_name, targets=(target,), fallbacks=())
