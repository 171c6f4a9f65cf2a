"""uvicorn's connection with bounds on what comes before a request is known: the size of its head, its time, its sense.

A server behind a proxy gets heads that the proxy has checked; one without gets anything.
"""

from asyncio import TimerHandle, Transport
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: The longest head of a request: its line and its headers, in bytes.
HEAD_BYTES_MAX = 64 * 1024
#: How long a client may take from connecting, or from the first byte of another request, to the end of the head.
HEAD_S = 10.0
#: The ASGI extension that cuts the connection though the client doesn't read what was sent.
ABORT = "bridge.abort"
#: Headers that two servers could read differently if they came twice.
ONCE = (b"host", b"content-length", b"transfer-encoding", b"authorization", b"x-api-key")


class BadHead(Exception):
    """The head is too large, or can be read in two ways."""


class BoundedConnection(HttpToolsProtocol):
    """Closes connections whose heads are too large, too slow or ambiguous."""

    #: The process is leaving: whoever gets an answer is told to connect anew.
    is_leaving: ClassVar[bool] = False
    #: How long a connection on which nothing runs stays open at the end, in seconds: a client may be asking just now.
    linger_s: ClassVar[float] = 0.0

    _head_timer: TimerHandle | None = None
    _is_in_head = False
    _parsed_bytes = 0
    _unparsed_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_head and not self.transport.is_closing():
            # The parser keeps an unfinished header to itself.
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > HEAD_BYTES_MAX:
                self.send_400_response("The request's head is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed_bytes = self._unparsed_bytes = 0
        self._is_in_head = True
        self.scope["extensions"] = {ABORT: {"now": self.transport.abort}}
        self._await_head()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_arrived()
        self._refuse_ambiguous([name for name, _ in self.headers], self.parser.get_http_version())
        super().on_headers_complete()
        if self.is_leaving and self.cycle is not None:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        is_busy = bool(self.cycle) and not self.cycle.response_complete
        if self.linger_s > 0 and not is_busy and not self.transport.is_closing():
            self.loop.call_later(self.linger_s, super().shutdown)
        else:
            super().shutdown()

    def _refuse_ambiguous(self, names: list[bytes], version: str) -> None:
        is_odd = version not in ("1.0", "1.1") or (version == "1.1" and b"host" not in names)
        if is_odd or any(names.count(name) > 1 for name in ONCE):
            msg = "ambiguous"
            raise BadHead(msg)

    def _count(self, size: int) -> None:
        self._parsed_bytes += size
        if self._parsed_bytes > HEAD_BYTES_MAX:
            msg = "too large"
            raise BadHead(msg)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._give_up)

    def _head_arrived(self) -> None:
        self._is_in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()
