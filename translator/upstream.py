"""The only module that opens a connection to an upstream.

httpx's transport interface on aiohttp's pool: httpx's own pool loses its slots to cancelled calls for good
(encode/httpcore#1093). The transport is called directly, without an httpx client around it, so that no cookie,
redirect, proxy or retry of a client library can happen behind our back.

What can go wrong:

* UpstreamFault
  x UpstreamRefused       the address isn't one we may call (see keys.egress), or a header can't be sent
  x UpstreamUnreachable   no connection: refused, DNS, TLS
  x UpstreamTimedOut      one of the four clocks ran out: connect, first byte, gap, total
  x UpstreamBroke         the connection ended or broke its own framing in the middle
    x UpstreamUnreadable  the answer is compressed in a way that we can't, or won't, undo
"""

import asyncio
import socket
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Protocol

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream

from keys.egress import check_base_url, is_allowed_address, is_allowed_host
from keys.entries import UpstreamEntry

#: An error body is read this far; what follows is of no use to anybody.
MAX_ERROR_BYTES = 64 * 1024
#: The largest whole answer, in bytes, after inflating.
MAX_WHOLE_BYTES = 64 * 1024 * 1024
#: Inflated at most this much out of one piece of a compressed answer.
MAX_INFLATED_BYTES = 4 * 1024 * 1024
#: Beyond that, an answer that grows to more than this many times of what was sent is a bomb; text grows tenfold or so.
MAX_GROWTH = 100
USER_AGENT = "bridge/0.1"


class UpstreamFault(Exception):
    """An attempt failed below HTTP."""


class UpstreamRefused(UpstreamFault):
    """The upstream's address isn't one that we may call, or a header can't be sent: nothing was sent."""


class UpstreamUnreachable(UpstreamFault):
    """No connection could be made."""


class UpstreamTimedOut(UpstreamFault):
    """One of the clocks ran out."""

    def __init__(self, clock: str, after_s: float) -> None:
        super().__init__(f"{clock} after {after_s:g} s")
        self.clock = clock
        self.after_s = after_s


class UpstreamBroke(UpstreamFault):
    """The answer ended early or broke HTTP."""


class UpstreamUnreadable(UpstreamBroke):
    """The answer is compressed in a way that can't be undone, or grows beyond measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """How long an attempt may take, in seconds."""

    #: Until the connection stands.
    connect_s: float = 10.0
    #: From the send to the first thing the model said. Claude Code gives up after 360 s.
    first_byte_s: float = 300.0
    #: Between two reads of a running answer.
    gap_s: float = 120.0
    #: The whole attempt.
    total_s: float = 3600.0


def clocks_of(upstream: UpstreamEntry) -> Clocks:
    """Return the clocks that an administrator set for an upstream."""
    return Clocks(
        connect_s=upstream.connect_timeout_s,
        first_byte_s=upstream.first_byte_timeout_s,
        gap_s=upstream.idle_timeout_s,
        total_s=upstream.total_timeout_s,
    )


class Answer:
    """An upstream's answer: status and headers are here, the body is still coming."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers.raw}
        # An answer without a date gets that of its arrival: what it says of points in time is reckoned from it (RFC 9110, 6.6.1).
        self.headers.setdefault("date", formatdate(usegmt=True))
        self._response = response
        assert isinstance(response.stream, AiohttpResponseStream)  # noqa: S101  (what the transport gives)
        # The stream's own iterator is at its end for good once a read was cut off; the reader below it goes on.
        self._body = response.stream._aiohttp_response.content
        self._inflate = _inflater(self.headers.get("content-encoding", ""))

    async def read(self, *, until: float) -> bytes:
        """Read the next piece of the body.

        Args:
            until: When to stop waiting, on the loop's clock.

        Returns:
            Some bytes, or b"" at the end of the body.

        Raises:
            TimeoutError: Nothing came in time. The body can be read on.
            UpstreamBroke: The body ended early.
        """
        while True:
            try:
                async with asyncio.timeout_at(until):
                    chunk = await self._body.readany()
            except (aiohttp.ClientError, OSError) as exc:
                if isinstance(exc, TimeoutError):
                    raise
                raise UpstreamBroke(type(exc).__name__) from exc
            if not chunk or self._inflate is None:
                return chunk
            if inflated := self._inflate(chunk):
                return inflated

    async def read_all(self, *, until: float, limit: int = MAX_WHOLE_BYTES) -> bytes:
        """Read the whole body, or its first `limit` bytes.

        Raises:
            TimeoutError: It wasn't there in time.
            UpstreamBroke: The body ended early.
        """
        parts: list[bytes] = []
        size = 0
        while size < limit and (chunk := await self.read(until=until)):
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts)[:limit]

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it."""
        await self._response.aclose()


class Inflater(Protocol):
    def __call__(self, chunk: bytes) -> bytes: ...


def _inflater(encoding: str) -> Inflater | None:
    """Build what undoes a content encoding that we asked the upstream not to use.

    Raises:
        UpstreamUnreadable: The encoding isn't one we can undo.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ("gzip", "x-gzip", "deflate"):
        msg = f"content-encoding {encoding[:20]}"
        raise UpstreamUnreadable(msg)
    stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
    sent = inflated = 0

    def inflate(chunk: bytes) -> bytes:
        nonlocal sent, inflated
        try:
            plain = stream.decompress(chunk, MAX_INFLATED_BYTES)
        except zlib.error as exc:
            msg = "broken compression"
            raise UpstreamUnreadable(msg) from exc
        sent += len(chunk)
        inflated += len(plain)
        if stream.unconsumed_tail or inflated > max(MAX_INFLATED_BYTES, MAX_GROWTH * sent):
            msg = "compression bomb"
            raise UpstreamUnreadable(msg)
        return plain

    return inflate


class NoUsableAddress(OSError):
    """A name leads only where we may not connect."""


class GuardedResolver(AbstractResolver):
    """Look names up and drop each address that may not be called, at the moment of connecting.

    What is returned is what is connected to: no name is looked up twice for one connection.
    """

    def __init__(self, allowed: Sequence[str], names: AbstractResolver | None = None) -> None:
        self._allowed = allowed
        self._inner = names or aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        is_named = is_allowed_host(host, self._allowed)
        usable = [one for one in found if is_named or is_allowed_address(one["host"], self._allowed)]
        if not usable:
            raise NoUsableAddress(None, f"{host} has no address that may be called")
        return usable

    async def close(self) -> None:
        await self._inner.close()


class UpstreamClient:
    """Send requests to upstreams over one pool of connections.

    Args:
        allowed: Private hosts and networks that may be called all the same.
        names: Looks names up; the system's resolver when left out.
    """

    def __init__(self, *, allowed: Sequence[str], names: AbstractResolver | None = None) -> None:
        self._allowed = tuple(allowed)
        self._names = names
        self._transport = AiohttpTransport(client=self._open_session)
        self._urls: dict[str, httpx.URL] = {}

    def _open_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(self._allowed, self._names), use_dns_cache=False, limit=0, keepalive_timeout=30
        )
        return aiohttp.ClientSession(
            connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, clocks: Clocks, until: float) -> Answer:
        """Send `body` and return once the upstream has answered with a status.

        Args:
            until: When to stop waiting for that, on the loop's clock.

        Raises:
            UpstreamFault: See the module.
        """
        _refuse_odd(headers)
        return await self._send(httpx.Request("POST", self._checked(url), headers=headers, content=body), clocks, until)

    async def get(self, url: str, headers: Mapping[str, str], *, clocks: Clocks, until: float) -> Answer:
        """Ask for `url`; otherwise like `post`."""
        _refuse_odd(headers)
        return await self._send(httpx.Request("GET", self._checked(url), headers=headers), clocks, until)

    async def aclose(self) -> None:
        await self._transport.aclose()

    def _checked(self, url: str) -> httpx.URL:
        """Parse `url`, once for each. A literal address never reaches the resolver, so it is checked here."""
        if (known := self._urls.get(url)) is not None:
            return known
        try:
            parsed = httpx.URL(check_base_url(url, self._allowed))
        except ValueError as exc:
            raise UpstreamRefused(str(exc)) from exc
        self._urls[url] = parsed
        return parsed

    async def _send(self, request: httpx.Request, clocks: Clocks, until: float) -> Answer:
        request.headers["accept-encoding"] = "identity"
        request.headers["user-agent"] = USER_AGENT
        request.extensions["timeout"] = {"connect": clocks.connect_s, "pool": clocks.connect_s}
        try:
            async with asyncio.timeout_at(until):
                response = await self._transport.handle_async_request(request)
        except TimeoutError as exc:
            msg = "no answer"
            raise UpstreamTimedOut(msg, clocks.first_byte_s) from exc
        except (httpx.ConnectTimeout, httpx.TimeoutException) as exc:
            raise _timed_out_or_gone(exc, clocks) from exc
        except httpx.ConnectError as exc:
            raise _refused_or_gone(exc) from exc
        # Never the library's own words: they may quote a header, and a header holds the credential.
        except (httpx.HTTPError, aiohttp.ClientError, OSError, ValueError) as exc:
            raise UpstreamBroke(type(exc).__name__) from exc
        try:
            return Answer(response)
        except UpstreamUnreadable:
            await response.aclose()
            raise


def _refuse_odd(headers: Mapping[str, str]) -> None:
    """Refuse what no header can carry before a library sees it: its error would hold the value, maybe a credential."""
    for name, value in headers.items():
        if not value.isascii() or not value.isprintable():
            msg = f"the header {name} can't be sent"
            raise UpstreamRefused(msg)


def _refused_or_gone(exc: BaseException) -> UpstreamFault:
    """Tell whether the guard stopped the connection: libraries wrap its error in theirs."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, NoUsableAddress):
            return UpstreamRefused("no address that may be called")
        cause = cause.__cause__ or cause.__context__
    return UpstreamUnreachable(type(exc.__cause__).__name__)


def _timed_out_or_gone(exc: httpx.TimeoutException, clocks: Clocks) -> UpstreamFault:
    """Tell a real time-out from a connection that was lost or never made: the transport calls all ConnectTimeout."""
    if isinstance(exc.__cause__, TimeoutError):
        return UpstreamTimedOut("no connection", clocks.connect_s)
    if isinstance(exc.__cause__, aiohttp.ClientConnectorError):
        return _refused_or_gone(exc)
    return UpstreamBroke(type(exc.__cause__).__name__)
