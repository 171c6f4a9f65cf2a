"""One answer on its way from an upstream to a client: bytes in, bytes out.

The pump that moves the bytes knows no dialect. It feeds what it read to an `Exchange`, sends what comes back,
and asks at the end what it saw. Two kinds exist: `Translated` decodes to events and encodes them again;
`Passed` (the same dialect on both sides) hands the bytes on untouched and only reads them.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from translator.core.errors import ClientError
from translator.core.events import Event, MessageDelta, MessageStop, StopReason, StreamFailed, Usage

__all__ = ["CONTINUED", "Exchange", "Passed", "Translated"]

#: Notes an answer whose upstream is to be asked to go on.
CONTINUED = "continued"


class Exchange(Protocol):
    """What the pump needs of an answer."""

    @property
    def ping(self) -> bytes:
        """What keeps a silent stream alive, in the client's dialect."""

    @property
    def usage(self) -> Usage:
        """Tokens as far as they are known now."""

    @property
    def upstream_id(self) -> str | None:
        """The upstream's own id of the answer; None while it hasn't said one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What had to be repaired or dropped, as short codes."""

    @property
    def stop_reason(self) -> str | None:
        """Why the message ended, in the client's words; None while it hasn't."""

    @property
    def error(self) -> ClientError | None:
        """What went wrong inside the answer; nothing more is to be fed after that."""

    @property
    def has_output(self) -> bool:
        """Whether the model has said anything yet."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has been told the end, good or bad."""

    @property
    def is_finishing(self) -> bool:
        """Whether the upstream said its last word and only formalities may follow."""

    @property
    def wants_more(self) -> bool:
        """Whether the upstream cut the answer short, so that the client hasn't been told the end: it may be asked to go on."""

    def give_up(self) -> bytes:
        """End an answer that can't be gone on with, and forget its error; return what the client must still get."""

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes of a stream; return those for the client, maybe none."""

    def finish(self) -> bytes:
        """Take the end of the stream; return what the client must still get."""

    def fail(self, error: ClientError) -> bytes:
        """End the client's stream with `error`; nothing where the end has been told."""

    def start(self) -> bytes:
        """Return the beginning of the client's stream if it has heard nothing yet: the upstream is slow."""

    def feed_body(self, body: bytes) -> bytes:
        """Take a whole answer where a stream was asked for; return the client's stream."""

    def whole(self, body: bytes) -> bytes:
        """Take a whole answer; return the client's. Meaningless when `error` is set afterwards."""


class Reader(Protocol):
    """What watches an answer that passes unchanged."""

    is_done: bool
    has_output: bool
    stop_reason: str | None
    error: ClientError | None
    upstream_id: str | None

    @property
    def usage(self) -> Usage: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def is_finishing(self) -> bool: ...
    def feed(self, data: bytes) -> bytes: ...
    def finish(self) -> bytes: ...
    def fail(self, error: ClientError) -> bytes: ...
    def feed_body(self, body: bytes) -> bytes: ...
    def read_whole(self, body: bytes) -> bytes: ...


class Passed:
    """An answer that is handed on as it comes, and only read."""

    wants_more = False

    def __init__(self, reader: Reader, *, ping: bytes) -> None:
        self._reader = reader
        self.ping = ping

    @property
    def usage(self) -> Usage:
        return self._reader.usage

    @property
    def upstream_id(self) -> str | None:
        return self._reader.upstream_id

    @property
    def notes(self) -> tuple[str, ...]:
        return self._reader.notes

    @property
    def stop_reason(self) -> str | None:
        return self._reader.stop_reason

    @property
    def error(self) -> ClientError | None:
        return self._reader.error

    @property
    def has_output(self) -> bool:
        return self._reader.has_output

    @property
    def is_complete(self) -> bool:
        return self._reader.is_done

    @property
    def is_finishing(self) -> bool:
        return self._reader.is_finishing

    def feed(self, chunk: bytes) -> bytes:
        return self._reader.feed(chunk)

    def finish(self) -> bytes:
        return self._reader.finish()

    def fail(self, error: ClientError) -> bytes:
        return self._reader.fail(error)

    def start(self) -> bytes:
        return b""

    def give_up(self) -> bytes:
        return b""

    def feed_body(self, body: bytes) -> bytes:
        return self._reader.feed_body(body)

    def whole(self, body: bytes) -> bytes:
        return self._reader.read_whole(body)


class EventDecoder(Protocol):
    """The upstream's side of a translation."""

    upstream_id: str | None
    wants_more: bool
    round_error: ClientError | None

    @property
    def usage(self) -> Usage: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def has_output(self) -> bool: ...
    @property
    def is_finishing(self) -> bool: ...
    def start(self) -> list[Event]: ...
    def feed(self, chunk: bytes) -> list[Event]: ...
    def finish(self) -> list[Event]: ...
    def fail(self, error: ClientError) -> list[Event]: ...
    def feed_whole(self, body: bytes) -> list[Event]: ...
    def give_up(self) -> list[Event]: ...


class EventEncoder(Protocol):
    """The client's side of a translation."""

    def encode_all(self, events: Sequence[Event]) -> bytes: ...


class Translated:
    """An answer that is decoded to events and encoded in the client's dialect.

    Args:
        render_whole: Writes a complete message's events as one body.
    """

    def __init__(
        self,
        decoder: EventDecoder,
        encoder: EventEncoder,
        render_whole: Callable[[Sequence[Event]], bytes],
        *,
        ping: bytes,
    ) -> None:
        self._decoder = decoder
        self._encoder = encoder
        self._render_whole = render_whole
        self.ping = ping
        #: A whole answer's events, from all its rounds; None where it is streamed.
        self._events: list[Event] | None = None
        self._failed: ClientError | None = None
        self._stop_reason: str | None = None
        self.is_complete = False

    @property
    def usage(self) -> Usage:
        return self._decoder.usage

    @property
    def wants_more(self) -> bool:
        return self._decoder.wants_more

    @property
    def error(self) -> ClientError | None:
        return self._failed or self._decoder.round_error

    @property
    def stop_reason(self) -> str | None:
        return StopReason.MAX_TOKENS if self._decoder.wants_more else self._stop_reason

    @property
    def upstream_id(self) -> str | None:
        return self._decoder.upstream_id

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._decoder.notes, CONTINUED) if self._decoder.wants_more else self._decoder.notes

    @property
    def has_output(self) -> bool:
        return self._decoder.has_output

    @property
    def is_finishing(self) -> bool:
        return self._decoder.is_finishing

    def feed(self, chunk: bytes) -> bytes:
        return self._write(self._decoder.feed(chunk))

    def finish(self) -> bytes:
        return b"" if self.is_complete else self._write(self._decoder.finish())

    def fail(self, error: ClientError) -> bytes:
        return b"" if self.is_complete else self._write(self._decoder.fail(error))

    def start(self) -> bytes:
        return self._write(self._decoder.start())

    def feed_body(self, body: bytes) -> bytes:
        return self._write(self._decoder.feed_whole(body))

    def whole(self, body: bytes) -> bytes:
        self._events = self._events or []
        return self._write(self._decoder.feed_whole(body))

    def give_up(self) -> bytes:
        return b"" if self.is_complete else self._write(self._decoder.give_up())

    def _write(self, events: list[Event]) -> bytes:
        if self._events is not None:
            self._events += events
            self._watch(events)
            return self._render_whole(self._events) if self.is_complete and not self.error else b""
        if not events:
            return b""
        self._watch(events)
        return self._encoder.encode_all(events)

    def _watch(self, events: list[Event]) -> None:
        # Only the last two events of a message say how it ended.
        for event in events[-2:]:
            match event:
                case MessageDelta():
                    self._stop_reason = event.stop_reason
                case MessageStop():
                    self.is_complete = True
                case StreamFailed():
                    self._failed = event.error
                    self.is_complete = True
                case _:
                    pass
