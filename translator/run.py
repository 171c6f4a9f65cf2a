"""One attempt, from the claim of a credential to its settlement.

A `Run` sends one request to one upstream with one credential, and has the answer read (`translator.reader`). Until there
is something worth showing it may fail without the client knowing (`Failure`); then it is a `Whole` body, or a stream has
`Begun`. Whatever happens, it settles once: the usage record gets its terminal state, the credential its outcome, the
connection is closed.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from keys.dispatch import Attempt, Claim, Dispatcher
from keys.pool.facts import Kind, Outcome
from translator import refusals
from translator.bookkeeping import Caller, open_record, settlement_of
from translator.calls import Call, Goal, Prepared
from translator.core.calibration import Calibration
from translator.core.emulation.refusal import TOOLS_REFUSED, refuses_tools
from translator.core.errors import ClientError
from translator.core.events import UsageSource
from translator.core.openai_chat.adapt import Adaptation, is_refusal
from translator.faults import judge_fault
from translator.metrics import note_settlement
from translator.offload import off_loop
from translator.reader import Reader
from translator.replies import Begun, Failure, Whole
from translator.upstream import MAX_ERROR_BYTES, UpstreamClient, UpstreamFault, clocks_of
from usage.ledger import Ledger
from usage.records import new_record_id
from usage.states import State

if TYPE_CHECKING:
    from usage.credential_limits import CredentialLimits  # the `redis` extra may not be installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every attempt of a worker uses."""

    dispatcher: Dispatcher
    ledger: Ledger
    upstream: UpstreamClient
    calibration: Calibration
    #: None where each worker counts for itself.
    credential_limits: "CredentialLimits | None" = None


class Run:
    """One attempt of a call; see the module."""

    def __init__(
        self,
        services: Services,
        call: Call,
        caller: Caller,
        attempt: Attempt,
        number: int,
        lessons: tuple[Adaptation, ...] = (),
        *,
        free_since: float,
    ) -> None:
        self._services = services
        self._call = call
        self._caller = caller
        self.attempt = attempt
        self._number = number
        self._lessons = lessons
        self._free_since = free_since
        #: When it was settled, on the loop's clock.
        self.ended_at = free_since
        self._loop = asyncio.get_running_loop()
        self._record_id = new_record_id()
        #: From here on there is a reader.
        self._is_recorded = False
        self._is_settled = False
        self._tokens_settled: int | None = None
        #: Why it is left, where that is our own doing and not the client's.
        self.stopped_by: ClientError | None = None
        #: The upstream and its model.
        self.place = (attempt.upstream.id, attempt.model_name)
        self._claim: Claim
        self._reader: Reader
        self.prepared: Prepared

    async def start(self) -> Whole | Begun | Failure:
        """Send the request and wait until there is something to show, or nothing to hope for.

        Raises:
            LedgerUnavailable: The attempt can't be recorded, so it isn't made.
            InvalidRequest: The request can't be said to this upstream; the client's fault.
        """
        self._claim = self._services.dispatcher.claim(self.attempt)
        try:
            if await self._is_full():
                return Failure(error=refusals.FULL, outcome=Outcome(kind=Kind.FULL))
            goal = goal_of(self.attempt, input_factor=self._services.calibration.factor(self.place))
            self.prepared = await off_loop(self._call.size, self._call.prepare, goal, self._lessons)
            await self._services.ledger.open(
                open_record(self._record_id, self._number, self._call, self._caller, self.attempt)
            )
            self._reader = Reader(self.prepared, clocks_of(self.attempt.upstream), on_first=self._claim.answered)
            self._is_recorded = True
            return await self._send()
        except UpstreamFault as exc:
            return await self.fail(exc)
        except BaseException:
            await self.leave()
            raise

    async def _is_full(self) -> bool:
        """Count the attempt in the credential's limits for all workers; give it back when it doesn't fit."""
        limits, estimate = self._services.credential_limits, self.attempt.estimate_tokens
        full = await limits.take(self.attempt.credential, estimate) if limits else None
        if full is None:
            return False
        self._is_settled = True
        self._claim.give_back(wait_s=full.wait_s, tokens=full.tokens)
        return True

    async def _send(self) -> Whole | Begun | Failure:
        reader, prepared = self._reader, self.prepared
        # The record's id goes along, so that a provider's own log can be held against the ledger.
        answer = await reader.send(self._services.upstream, {"x-request-id": str(self._record_id)})
        if answer.status != 200:
            body = await reader.body(MAX_ERROR_BYTES)
            told = prepared.read_error(answer.status, answer.headers, body)
            return await self._refused(told, status=answer.status, text=body[:2000].decode("utf-8", "replace"))
        shown = await (reader.begin() if self._call.stream else reader.whole())
        if (error := prepared.exchange.error) is not None:
            return await self._refused(error, status=error.status, text=error.message)
        if self._call.stream:
            return Begun(first=shown)
        await self.succeed()
        return Whole(body=shown)

    def lesson_of(self, failure: Failure) -> Adaptation | None:
        """Return what the upstream's refusal teaches about its model; None when a second try would be no use."""
        status, text = failure.outcome.status, failure.outcome.error_text
        return self.prepared.learn(text) if is_refusal(status, text) else None

    async def read(self, *, until: float) -> bytes:
        """Read on in a stream that has begun; see `Reader.read`."""
        return await self._reader.read(until=until)

    @property
    def is_cut(self) -> bool:
        """Whether the upstream ended the stream before its answer was complete."""
        return self._reader.is_cut

    async def succeed(self) -> None:
        """Settle a complete answer."""
        reader = self._reader
        self._settle(
            State.OK,
            # What the answer's headers say of the credential's allowance is news for the pool.
            Outcome(kind=Kind.OK, status=200, headers=reader.headers, ttft_ms=reader.ttft_ms, tokens=self.tokens_used),
            status=200,
        )
        await reader.close(linger=True)

    async def _refused(self, error: ClientError, *, status: int, text: str) -> Failure:
        """Settle an answer that is an error, whether its status said so or its body."""
        if refuses_tools(status, text):
            self.prepared = replace(self.prepared, notes=(*self.prepared.notes, TOOLS_REFUSED))
        outcome = Outcome(
            kind=Kind.BAD_ANSWER if self._reader.status == 200 else Kind.HTTP_ERROR,
            status=status,
            headers=self._reader.headers,
            error_text=text,
        )
        self._settle(State.TRUNCATED if self.is_cut else State.UPSTREAM_ERROR, outcome, error=error, status=status)
        await self._reader.close()
        return Failure(error=error, outcome=outcome)

    async def fail(self, fault: UpstreamFault) -> Failure:
        """Settle an attempt that failed below HTTP."""
        state, kind, error = judge_fault(fault)
        outcome = Outcome(kind=kind, error_text=str(fault))
        self._settle(state, outcome, error=error)
        await self._reader.close()
        return Failure(error=error, outcome=outcome)

    async def break_off(self, error: ClientError, state: State, kind: Kind) -> None:
        """Settle a stream that the upstream, or we ourselves, ended in the middle.

        Args:
            kind: What it says of the credential: `CLIENT_GONE` when the end was our own doing.
        """
        outcome = Outcome(
            kind=kind, status=error.status, error_text=error.message, tokens=self.tokens_used, is_sent=True
        )
        self._settle(state, outcome, error=error, status=200)
        await self._reader.close()

    async def leave(self) -> None:
        """Settle an attempt whose client is gone; nothing happens when it has settled."""
        try:
            if self._is_recorded and self._call.stream and not self._is_settled:
                await self._reader.hear_out()
        finally:
            state = State.TRUNCATED if self.stopped_by else State.CLIENT_GONE
            outcome = Outcome(kind=Kind.CLIENT_GONE, tokens=self.tokens_used)
            self._settle(state, outcome, error=self.stopped_by)
            if self._is_recorded:
                await self._reader.close()

    def _settle(
        self, state: State, outcome: Outcome, *, error: ClientError | None = None, status: int | None = None
    ) -> None:
        if self._is_settled:
            return
        self._tokens_settled = self.tokens_used
        self._is_settled = True
        self.ended_at = self._loop.time()
        self._claim.release(outcome)
        if not self._is_recorded:
            return
        if limits := self._services.credential_limits:
            limits.settle(self.attempt.credential, held=self.attempt.estimate_tokens, used=outcome.tokens)
        reader, usage = self._reader, self.prepared.exchange.usage
        if usage.source is UsageSource.UPSTREAM:
            actual = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
            self._services.calibration.learn(self.place, estimate=self.estimate, actual=actual)
        settlement = settlement_of(
            self._record_id,
            state,
            self.prepared,
            self._caller,
            max_tokens=self._call.max_tokens,
            http_status=status or outcome.status,
            error=error,
            queued_ms=round((reader.sent_at - self._free_since) * 1000),
            ttft_ms=reader.ttft_ms,
            duration_ms=round((self.ended_at - reader.sent_at) * 1000),
        )
        self._services.ledger.settle(settlement)
        note_settlement(self.attempt.upstream.name, settlement)

    @property
    def headers(self) -> Mapping[str, str]:
        """What the client is told of this attempt: what became of its messages, the upstream's id if it is known by now."""
        upstream_id = self.prepared.exchange.upstream_id
        return {**self.prepared.told, **({"x-upstream-id": upstream_id} if upstream_id else {})}

    @property
    def estimate(self) -> int:
        """Input tokens of what is sent, estimated."""
        return self.prepared.estimate or self._call.estimate

    @property
    def tokens_used(self) -> int:
        """Input and output as far as they are known."""
        if self._tokens_settled is not None:
            return self._tokens_settled
        if not self._is_recorded:
            return 0
        usage = self.prepared.exchange.usage
        return usage.input_tokens + usage.cache_write_tokens + usage.output_tokens


def goal_of(attempt: Attempt, *, input_factor: float) -> Goal:
    return Goal(
        upstream=attempt.upstream,
        model_name=attempt.model_name,
        model=attempt.model,
        credential=attempt.credential,
        input_factor=input_factor,
    )
