"""A call's way to its answer: one attempt after the other, and, where that is allowed, a wait in between.

`keys.dispatch` decides on whom to try; a `Run` makes the attempt. Waiting happens before anything went to the client.

* CallFailed   no attempt gave an answer; carries what the client is told
"""

import asyncio

from keys.dispatch import Attempt
from keys.entries import RouteEntry
from keys.pool.facts import Kind
from keys.pool.failover import Refusal
from keys.waiting import WaitingRoom
from translator import refusals
from translator.bookkeeping import Caller
from translator.calls import Call
from translator.core.errors import ClientError
from translator.core.openai_chat.adapt import Adaptation
from translator.metrics import WAITING
from translator.replies import Begun, Failure, Whole
from translator.rounds import Rounds
from translator.run import Run, Services
from translator.stream import Stream
from usage.ledger import Admission, LedgerUnavailable

#: So many lessons are kept for one upstream model.
LESSONS_MAX = 8


class CallFailed(Exception):
    """No attempt gave an answer."""

    def __init__(self, error: ClientError, *, was_tried: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        #: Whether an upstream was asked, so that a usage record tells what happened.
        self.was_tried = was_tried


class Tries:
    """Makes the attempts of all calls of a worker.

    Args:
        waiting_room: Where calls wait that find every credential resting or full.
    """

    def __init__(self, services: Services, waiting_room: WaitingRoom) -> None:
        self._services = services
        self._waiting_room = waiting_room
        #: What refusals taught, by upstream and its model.
        self._lessons: dict[tuple[int, str], tuple[Adaptation, ...]] = {}

    async def answer(
        self, call: Call, caller: Caller, route: RouteEntry, runs: list[Run], admission: Admission
    ) -> Whole | Stream:
        """Get an answer, or its beginning; `runs` takes in the attempts that are made.

        Raises:
            CallFailed: With what the client is told.
        """
        since = asyncio.get_running_loop().time()
        is_patient, waited_after = self._waiting_room.is_open, None
        while True:
            result = await self._try_each(
                call, caller, route, runs, waited_after=waited_after, asks_resting=not is_patient
            )
            if not isinstance(result, Refusal):
                rounds = Rounds(self._services, call, caller, runs, admission) if runs[-1].prepared.further else None
                if isinstance(result, Begun):
                    return Stream(runs[-1], result.first, rounds)
                return await rounds.complete(result) if rounds else result
            if not is_patient:
                raise CallFailed(refusals.refused(result), was_tried=bool(runs))
            is_patient = await self._wait(result, since)
            if not is_patient and runs:
                raise CallFailed(refusals.refused(result), was_tried=True)
            waited_after = len(runs)

    async def _wait(self, refusal: Refusal, since: float) -> bool:
        """Wait for one's turn; False at once when it would come too late or there is no room."""
        with WAITING.track_inprogress():
            return await self._waiting_room.wait(refusal.retry_after_s, since=since)

    async def _try_each(
        self,
        call: Call,
        caller: Caller,
        route: RouteEntry,
        runs: list[Run],
        *,
        waited_after: int | None,
        asks_resting: bool,
    ) -> Whole | Begun | Refusal:
        """Try one credential after another; return the pool's refusal when it has the last word."""
        attempts = self._services.dispatcher.attempts(
            route,
            session_id=call.session_id or "",
            estimate_tokens=call.estimate,
            kind=call.kind,
            waited_after=waited_after,
            asks_resting=asks_resting,
        )
        failure: Failure | None = None
        try:
            attempt = next(attempts)
            while True:
                reply = await self._try(call, caller, attempt, runs)
                if not isinstance(reply, Failure):
                    return reply
                failure = reply
                attempt = attempts.send(reply.outcome)
        except StopIteration as end:
            refusal: Refusal | None = end.value
            if refusal is not None:
                return refusal
            assert failure is not None  # noqa: S101  (attempts end without a refusal only after one)
            raise CallFailed(failure.error, was_tried=True) from None
        finally:
            attempts.close()

    async def _try(self, call: Call, caller: Caller, attempt: Attempt, runs: list[Run]) -> Whole | Begun | Failure:
        """Make one attempt; once more if the upstream refused a key of the body that can be left out."""
        place = (attempt.upstream.id, attempt.model_name)
        first, reply = await self._run(call, caller, attempt, runs, self._lessons.get(place, ()))
        if isinstance(reply, Failure) and (lesson := first.lesson_of(reply)):
            second, reply = await self._run(call, caller, attempt, runs, self._with(lesson, place))
            if lesson.is_lasting and (not isinstance(reply, Failure) or _led_on(lesson, first, second, reply)):
                self._lessons[place] = self._with(lesson, place)
        return reply

    def _with(self, lesson: Adaptation, place: tuple[int, str]) -> tuple[Adaptation, ...]:
        known = self._lessons.get(place, ())
        return known if lesson in known else (*known, lesson)[-LESSONS_MAX:]

    async def _run(
        self, call: Call, caller: Caller, attempt: Attempt, runs: list[Run], lessons: tuple[Adaptation, ...]
    ) -> tuple[Run, Whole | Begun | Failure]:
        free_since = runs[-1].ended_at if runs else caller.arrived_at
        run = Run(self._services, call, caller, attempt, len(runs) + 1, lessons, free_since=free_since)
        runs.append(run)
        try:
            reply = await run.start()
        except LedgerUnavailable as exc:
            raise CallFailed(refusals.NO_LEDGER) from exc
        if isinstance(reply, Failure) and reply.outcome.kind is Kind.FULL:
            runs.remove(run)
        return run, reply


def _led_on(lesson: Adaptation, first: Run, second: Run, refusal: Failure) -> bool:
    """Tell whether a second refusal is about a further key only: one that names the first key still was not helped."""
    further = second.lesson_of(refusal)
    is_another = further is not None and further.key not in (lesson.key, lesson.rename)
    return is_another and first.lesson_of(refusal) != lesson
