"""What one upstream says, read under its clocks: bytes of the upstream -> bytes for the client.

A `Reader` sends one request and reads its answer through the attempt's exchange. It knows how long an upstream may keep
silent, and when an answer counts as ended; what an answer means for ledger and pool is the business of `translator.run`.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from translator.calls import Prepared
from translator.upstream import (
    MAX_WHOLE_BYTES,
    Answer,
    Clocks,
    UpstreamBroke,
    UpstreamClient,
    UpstreamFault,
    UpstreamTimedOut,
)

#: Headers go to the client after this much silence of an upstream that accepted, so that pings can flow.
EARLY_HEADERS_S = 15.0
#: After its last word an upstream may leave the stream open this long before it is taken as ended.
ENDING_S = 3.0
#: The same, for an upstream that keeps sending comments all the while.
ENDING_MAX_S = 15.0
#: How long to look for the end of the body after the answer's end, so that the connection can serve again.
LINGER_S = 0.05
#: How long to read on when the client is gone.
HEAR_OUT_S = 0.02
#: Content types of an answer that isn't the stream that was asked for.
NOT_A_STREAM = ("json", "html")


class Deadline(NamedTuple):
    """When to stop waiting for the next bytes."""

    #: On the loop's clock.
    at: float
    #: Which of the upstream's clocks it is, for the error.
    clock: str
    #: That clock's length.
    after_s: float


class Reader:
    """The answer to one request.

    Args:
        prepared: The request, and the exchange that translates its answer.
        on_first: Called once, when a stream's model has said its first thing.
    """

    def __init__(self, prepared: Prepared, clocks: Clocks, *, on_first: Callable[[], None]) -> None:
        self._prepared = prepared
        self._exchange = prepared.exchange
        self._clocks = clocks
        self._on_first = on_first
        self._loop = asyncio.get_running_loop()
        self._answer: Answer | None = None
        #: When the request went out, on the loop's clock.
        self.sent_at = self._heard_at = self._loop.time()
        self._first_delta_at: float | None = None
        #: When the upstream said its last word.
        self._finished_at: float | None = None
        #: Whether the upstream ended the stream before its answer was complete.
        self.is_cut = False

    async def send(self, upstream: UpstreamClient, headers: Mapping[str, str]) -> Answer:
        """Send the request with these headers beside its own; return the answer when its headers are there.

        Raises:
            UpstreamFault: There is none.
        """
        self.sent_at = self._heard_at = self._loop.time()
        self._answer = await upstream.post(
            self._prepared.url,
            {**self._prepared.headers, **headers},
            self._prepared.body,
            clocks=self._clocks,
            until=self.sent_at + self._clocks.first_byte_s,
        )
        return self._answer

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers; none while it isn't there."""
        return self._answer.headers if self._answer else {}

    @property
    def status(self) -> int | None:
        """The answer's status, in the same way."""
        return self._answer.status if self._answer else None

    @property
    def ttft_ms(self) -> int | None:
        """Milliseconds from the send to the first thing that the model said."""
        return None if self._first_delta_at is None else round((self._first_delta_at - self.sent_at) * 1000)

    async def body(self, limit: int) -> bytes:
        """Read the rest of the answer, up to `limit` bytes.

        Raises:
            UpstreamFault: It doesn't end in time, broke off, or is larger.
        """
        assert self._answer is not None  # noqa: S101  (`send` came first)
        try:
            return await self._answer.read_all(until=self.sent_at + self._clocks.total_s, limit=limit)
        except TimeoutError as exc:
            msg = "no end"
            raise UpstreamTimedOut(msg, self._clocks.total_s) from exc

    async def whole(self) -> bytes:
        """Read an answer that comes in one piece; return what the client gets for it."""
        body = await self.body(MAX_WHOLE_BYTES)
        self._first_delta_at = self._loop.time()
        return self._exchange.whole(body)

    async def begin(self) -> bytes:
        """Read until the model has said something, or the upstream has kept silent for long.

        A stream that opens and then fails has said nothing: while the client knows of no stream, another attempt
        can make it good.
        """
        if any(word in self.headers.get("content-type", "") for word in NOT_A_STREAM):
            return self._exchange.feed_body(await self.body(MAX_WHOLE_BYTES))
        exchange = self._exchange
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
        exchange = self._exchange
        assert self._answer is not None  # noqa: S101
        deadline = self._deadline()
        try:
            chunk = await self._answer.read(until=min(until, deadline.at))
        except TimeoutError:
            if self._loop.time() < deadline.at:
                return b""
            if exchange.is_finishing:
                return exchange.finish()
            raise UpstreamTimedOut(deadline.clock, deadline.after_s) from None
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
            self._on_first()
        if self._finished_at is None and exchange.is_finishing:
            self._finished_at = self._heard_at
        return shown

    def _deadline(self) -> Deadline:
        clocks = self._clocks
        if self._finished_at is not None:
            at = min(self._heard_at + ENDING_S, self._finished_at + ENDING_MAX_S)
            return Deadline(at, "no end", ENDING_S)
        total = Deadline(self.sent_at + clocks.total_s, "no end", clocks.total_s)
        if self._first_delta_at is None:
            # Comments and empty chunks are no answer: only the first thing the model says stops this clock.
            return min(total, Deadline(self.sent_at + clocks.first_byte_s, "no answer", clocks.first_byte_s))
        return min(total, Deadline(self._heard_at + clocks.gap_s, "silence", clocks.gap_s))

    async def hear_out(self) -> None:
        """Take what of a stream the upstream has said already and nobody has read: it was made, so it counts."""
        until = self._loop.time() + HEAR_OUT_S
        with suppress(UpstreamFault):
            while self._answer and self._loop.time() < until and not self._exchange.is_complete:
                await self.read(until=until)

    async def close(self, *, linger: bool = False) -> None:
        """Let go of the connection.

        Args:
            linger: Whether the answer ended well, so that the end of its body is near.
        """
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
