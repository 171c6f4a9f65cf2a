"""One attempt, from the claim of a credential to its settlement.

A `Run` sends one request to one upstream with one credential. Until it has an answer worth showing it may fail
without the client knowing (`Failure`); then it is a `Whole` body, or a stream has `Begun`. Whatever happens, it
settles once: the usage record gets its terminal state, the credential its outcome, the connection is closed.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
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
from translator.core.openai_chat.adapt import Adaptation
from translator.faults import judge_fault
from translator.metrics import note_settlement
from translator.offload import off_loop
from translator.replies import Begun, Failure, Whole
from translator.upstream import (
    MAX_ERROR_BYTES,
    MAX_WHOLE_BYTES,
    Answer,
    UpstreamBroke,
    UpstreamClient,
    UpstreamFault,
    UpstreamTimedOut,
    clocks_of,
)
from usage.ledger import Ledger
from usage.records import new_record_id
from usage.states import State

if TYPE_CHECKING:
    from usage.credential_limits import CredentialLimits  # the `redis` extra may not be installed

#: Headers go to the client after this much silence of an upstream that accepted, so that pings can flow.
EARLY_HEADERS_S = 15.0
#: After its last word an upstream may leave the stream open this long before it is taken as ended.
ENDING_S = 3.0
#: How long to look for the end of the body after the answer's end, so that the connection can serve again.
LINGER_S = 0.05
#: How long to read on when the client is gone.
HEAR_OUT_S = 0.02
#: Content types of an answer that isn't the stream that was asked for.
NOT_A_STREAM = ("json", "html")


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
        self._clocks = clocks_of(attempt.upstream)
        self._loop = asyncio.get_running_loop()
        self._record_id = new_record_id()
        self._is_recorded = False
        self._is_settled = False
        self._tokens_settled: int | None = None
        self._sent_at = self._heard_at = self._loop.time()
        self._first_delta_at: float | None = None
        #: Whether the upstream ended the stream before its answer was complete.
        self.is_cut = False
        #: Why it is left, where that is our own doing and not the client's.
        self.stopped_by: ClientError | None = None
        #: The upstream and its model.
        self.place = (attempt.upstream.id, attempt.model_name)
        self._claim: Claim
        self._answer: Answer | None = None
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
        prepared = self.prepared
        self._sent_at = self._heard_at = self._loop.time()
        self._answer = answer = await self._services.upstream.post(
            prepared.url,
            # The record's id goes along, so that a provider's own log can be held against the ledger.
            {**prepared.headers, "x-request-id": str(self._record_id)},
            prepared.body,
            clocks=self._clocks,
            until=self._sent_at + self._clocks.first_byte_s,
        )
        if answer.status != 200:
            body = await self._read_all(MAX_ERROR_BYTES)
            told = prepared.read_error(answer.status, answer.headers, body)
            return await self._refused(told, status=answer.status, text=body[:2000].decode("utf-8", "replace"))
        if not self._call.stream:
            return await self._whole()
        first = await self._first_bytes()
        if (error := prepared.exchange.error) is not None:
            return await self._refused(error, status=error.status, text=error.message)
        return Begun(first=first)

    def lesson_of(self, failure: Failure) -> Adaptation | None:
        """Return what the upstream's refusal teaches about its model; None when a second try would be no use."""
        if failure.outcome.status != 400:
            return None
        return self.prepared.learn(failure.outcome.error_text)

    async def _whole(self) -> Whole | Failure:
        body = await self._read_all(MAX_WHOLE_BYTES)
        self._first_delta_at = self._loop.time()
        shown = self.prepared.exchange.whole(body)
        if (error := self.prepared.exchange.error) is not None:
            return await self._refused(error, status=error.status, text=error.message)
        await self.succeed()
        return Whole(body=shown)

    async def _read_all(self, limit: int) -> bytes:
        assert self._answer is not None  # noqa: S101  (asked for by `_send`)
        try:
            return await self._answer.read_all(until=self._sent_at + self._clocks.total_s, limit=limit)
        except TimeoutError as exc:
            msg = "no end"
            raise UpstreamTimedOut(msg, self._clocks.total_s) from exc

    async def _first_bytes(self) -> bytes:
        """Read until the model has said something, or the upstream has kept silent for long.

        A stream that opens and then fails has said nothing: while the client knows of no stream, another attempt
        can make it good.
        """
        exchange = self.prepared.exchange
        assert self._answer is not None  # noqa: S101
        if any(word in self._answer.headers.get("content-type", "") for word in NOT_A_STREAM):
            return exchange.feed_body(await self._read_all(MAX_WHOLE_BYTES))
        patience = self._loop.time() + EARLY_HEADERS_S
        shown = b""
        while not (exchange.has_output or exchange.is_complete or exchange.wants_more or exchange.error):
            shown += await self.read(until=patience)
            if self._loop.time() >= patience:
                return shown or exchange.start()
        return shown

    async def read(self, *, until: float) -> bytes:
        """Read once from the stream and return what the client gets for it, maybe nothing.

        Args:
            until: When to come back with nothing if the upstream keeps silent, on the loop's clock.

        Raises:
            UpstreamFault: The upstream kept silent for too long, or broke off.
        """
        exchange = self.prepared.exchange
        assert self._answer is not None  # noqa: S101
        give_up, clock, after_s = self._give_up()
        try:
            chunk = await self._answer.read(until=min(until, give_up))
        except TimeoutError:
            if exchange.is_finishing:
                return exchange.finish()
            if self._loop.time() >= give_up:
                raise UpstreamTimedOut(clock, after_s) from None
            return b""
        except UpstreamBroke:
            if exchange.is_finishing:  # the answer is complete; what broke off was its terminator
                return exchange.finish()
            raise
        if not chunk:
            shown = exchange.finish()
            self.is_cut = exchange.error is not None
            return shown
        self._heard_at = self._loop.time()
        shown = exchange.feed(chunk)
        if self._first_delta_at is None and exchange.has_output:
            self._first_delta_at = self._heard_at
            self._claim.answered()
        return shown

    def _give_up(self) -> tuple[float, str, float]:
        """Return when to stop waiting for the next bytes, which clock that is, and its length."""
        if self.prepared.exchange.is_finishing:
            return self._heard_at + ENDING_S, "no end", ENDING_S
        total = (self._sent_at + self._clocks.total_s, "no end", self._clocks.total_s)
        if self._first_delta_at is None:
            # Comments and empty chunks are no answer: only the first thing the model says stops this clock.
            return min(total, (self._sent_at + self._clocks.first_byte_s, "no answer", self._clocks.first_byte_s))
        return min(total, (self._heard_at + self._clocks.gap_s, "silence", self._clocks.gap_s))

    async def succeed(self) -> None:
        """Settle a complete answer."""
        # What the answer's headers say of the credential's allowance is news for the pool.
        headers = self._answer.headers if self._answer else {}
        self._settle(
            State.OK,
            Outcome(kind=Kind.OK, status=200, headers=headers, ttft_ms=self._ttft_ms(), tokens=self.tokens_used),
            status=200,
        )
        await self._close(linger=True)

    async def _refused(self, error: ClientError, *, status: int, text: str) -> Failure:
        """Settle an answer that is an error, whether its status said so or its body."""
        if refuses_tools(status, text):
            self.prepared = replace(self.prepared, notes=(*self.prepared.notes, TOOLS_REFUSED))
        answer = self._answer
        outcome = Outcome(
            kind=Kind.HTTP_ERROR if answer and answer.status != 200 else Kind.BAD_ANSWER,
            status=status,
            headers=answer.headers if answer else {},
            error_text=text,
        )
        self._settle(State.TRUNCATED if self.is_cut else State.UPSTREAM_ERROR, outcome, error=error, status=status)
        await self._close()
        return Failure(error=error, outcome=outcome)

    async def fail(self, fault: UpstreamFault) -> Failure:
        """Settle an attempt that failed below HTTP."""
        state, kind, error = judge_fault(fault)
        outcome = Outcome(kind=kind, error_text=str(fault))
        self._settle(state, outcome, error=error)
        await self._close()
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
        await self._close()

    async def leave(self) -> None:
        """Settle an attempt whose client is gone; nothing happens when it has settled."""
        try:
            await self._hear_out()
        finally:
            state = State.TRUNCATED if self.stopped_by else State.CLIENT_GONE
            outcome = Outcome(kind=Kind.CLIENT_GONE, tokens=self.tokens_used)
            self._settle(state, outcome, error=self.stopped_by)
            await self._close()

    async def _hear_out(self) -> None:
        """Take what the upstream has said already and nobody has read: it was made, so it counts."""
        until = self._loop.time() + HEAR_OUT_S
        with suppress(UpstreamFault):
            while self._answer and self._call.stream and not self._is_settled and self._loop.time() < until:
                if self.prepared.exchange.is_complete:
                    return
                await self.read(until=until)

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
        exchange = self.prepared.exchange
        usage = exchange.usage
        if usage.source is UsageSource.UPSTREAM:
            actual = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
            self._services.calibration.learn(self.place, estimate=self.estimate, actual=actual)
        settlement = settlement_of(
            self._record_id,
            state,
            self.prepared,
            max_tokens=self._call.max_tokens,
            http_status=status or outcome.status,
            error=error,
            queued_ms=round((self._sent_at - self._free_since) * 1000),
            ttft_ms=self._ttft_ms(),
            duration_ms=round((self.ended_at - self._sent_at) * 1000),
        )
        self._services.ledger.settle(settlement)
        note_settlement(self.attempt.upstream.name, settlement)

    async def _close(self, *, linger: bool = False) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        try:
            while linger and await answer.read(until=self._loop.time() + LINGER_S):
                pass
        except (TimeoutError, UpstreamBroke):
            pass
        finally:
            await answer.aclose()

    def _ttft_ms(self) -> int | None:
        return None if self._first_delta_at is None else round((self._first_delta_at - self._sent_at) * 1000)

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
