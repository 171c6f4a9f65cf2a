"""HTTP/1.1 by hand: read a request, write an answer, and break the answer's bytes where a script says so.

Not done: pipelining, trailers, `Expect: 100-continue`, compressed request bodies.
"""

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

#: The longest request head and the largest body, in bytes.
MAX_HEAD = 256 * 1024
MAX_BODY = 64 * 1024 * 1024
#: How often a pause looks whether the client is still there, in seconds.
LOOK_S = 0.02


class ClientGone(Exception):
    """The client closed its side before the answer was whole."""


class BadRequest(Exception):
    """The bytes that came were no request that this server reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, read to its last byte."""

    method: str
    #: Without the query.
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Give the first value of a header, whatever case its name came in; None when it isn't there."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    def key(self) -> str:
        """Give the credential that came with the request, in either spelling; "" for none."""
        scheme, _, value = (self.header("authorization") or "").partition(" ")
        return value.strip() if scheme.lower() == "bearer" else self.header("x-api-key") or ""


class Wire:
    """One connection of a client: requests come in, bytes of answers go out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        # So that `drain` returns only once the kernel has taken every byte: the truth counts those.
        writer.transport.set_write_buffer_limits(high=0)

    async def read_request(self) -> Request | None:
        """Read the next request; None when the client closed the connection between two.

        Raises:
            BadRequest: The head is too long, or the lengths make no sense.
            ClientGone: The client closed in the middle of it.
        """
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as exc:
            if exc.partial:
                raise ClientGone from exc
            return None
        except asyncio.LimitOverrunError as exc:
            raise BadRequest from exc
        except ConnectionError:
            return None
        method, path, headers = _parse_head(head)
        try:
            body = await self._read_body({name.lower(): value for name, value in headers})
        except (asyncio.IncompleteReadError, ConnectionError) as exc:
            raise ClientGone from exc
        return Request(method=method, path=path, headers=headers, body=body)

    async def _read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._read_chunks()
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > MAX_BODY:
            raise BadRequest
        return await self._reader.readexactly(int(length))

    async def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = await self._reader.readline()
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError as exc:
                raise BadRequest from exc
            if size < 0 or len(body) + size > MAX_BODY:
                raise BadRequest
            body += await self._reader.readexactly(size)
            await self._reader.readline()
            if size == 0:
                return bytes(body)

    async def send(self, data: bytes) -> None:
        """Hand bytes to the kernel.

        Raises:
            ClientGone: The client has closed its side.
        """
        if self.is_gone():
            raise ClientGone
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError as exc:
            raise ClientGone from exc

    async def send_head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        reason = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Unknown"
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def send_whole(self, status: int, body: bytes, headers: Sequence[tuple[str, str]]) -> None:
        await self.send_head(status, [*headers, ("content-length", str(len(body)))])
        await self.send(body)

    async def send_chunk(self, data: bytes) -> None:
        """Send a chunk of a chunked body; nothing for no bytes, since an empty chunk ends the body."""
        if data:
            await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_chunks(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            ClientGone: The client left meanwhile.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await asyncio.sleep(0)  # a stream without gaps must not keep the others waiting
        while (left := until - loop.time()) > 0:
            await asyncio.sleep(min(left, LOOK_S))
            if self.is_gone():
                raise ClientGone

    def is_gone(self) -> bool:
        return self._reader.at_eof() or self._reader.exception() is not None or self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Close with a TCP reset: what the client had not read yet may be lost."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


def _parse_head(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequest
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest
        headers.append((name, value.strip()))
    return words[0], words[1].partition("?")[0], headers
