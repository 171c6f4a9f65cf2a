"""Connections that waste our memory or our time are closed; real sockets on a real uvicorn."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn

from bridgeproject import bodies, connection, lean, pages
from bridgeproject.connection import BoundedConnection

#: How long a busy machine may take for anything. What isn't closed on purpose stays open for longer.
PATIENCE_S = 30
HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"
OK = [
    {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]},
    {"type": "http.response.body", "body": b"ok"},
]


async def answer_ok(_scope: dict[str, Any], receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    for message in OK:
        await send(message)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[int]:
    """Serve `app` as `serve` does; give the port."""
    async with server_of(app) as (_, port):
        yield port


@asynccontextmanager
async def server_of(app: Any) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    server = uvicorn.Server(
        uvicorn.Config(app, http=BoundedConnection, lifespan="off", log_config=None, timeout_keep_alive=600)
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield server, listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await task


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def closed_after(reader: asyncio.StreamReader) -> tuple[bytes, float]:
    """Give what came until the server closed the connection, and how long that took."""
    began = time.monotonic()
    heard = b""
    with suppress(ConnectionError):
        heard = await asyncio.wait_for(reader.read(), PATIENCE_S)
    return heard, time.monotonic() - began


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD, HEAD + b"x-slow: a"], ids=["nothing", "line", "host", "half"])
async def test_a_head_that_does_not_end_ends_the_connection(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.5)
    async with serving(answer_ok) as port, connected(port) as (reader, writer):
        writer.write(sent)
        heard, took_s = await closed_after(reader)

    assert (heard, took_s < PATIENCE_S) == (b"", True)


async def test_a_head_that_comes_byte_by_byte_gets_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.5)
    async with serving(answer_ok) as port, connected(port) as (reader, writer):
        writer.write(HEAD + b"x-slow: ")
        reading = asyncio.create_task(closed_after(reader))
        while not reading.done():
            writer.write(b"a")
            await asyncio.sleep(0.1)

    heard, took_s = reading.result()
    assert (heard, took_s < PATIENCE_S) == (b"", True)


async def test_the_second_request_of_a_connection_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.6)
    async with serving(answer_ok) as port, connected(port) as (reader, writer):
        for _ in range(3):
            writer.write(HEAD + b"\r\n")
            assert b"200" in await reader.readuntil(b"ok")
            await asyncio.sleep(0.4)
        writer.write(HEAD)
        heard, took_s = await closed_after(reader)

    assert (heard, took_s < PATIENCE_S) == (b"", True)


@pytest.mark.parametrize(
    "flood",
    [b"x: " + b"y" * 200_000, b"a: b\r\n" * 30_000, b"x" * 200_000],
    ids=["one value", "many headers", "one name"],
)
async def test_a_head_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, flood: bytes) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 600)  # so that it isn't for its time
    async with serving(answer_ok) as port, connected(port) as (reader, writer):
        writer.write(HEAD)
        with suppress(ConnectionError):
            for start in range(0, len(flood), 10_000):
                writer.write(flood[start : start + 10_000])
                await writer.drain()
        heard, took_s = await closed_after(reader)

    assert b"200 OK" not in heard
    assert took_s < PATIENCE_S


async def test_a_large_body_is_no_large_head() -> None:
    async with serving(answer_ok) as port, connected(port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 1_000_000)

        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"ok"), PATIENCE_S)


async def test_a_client_that_stops_reading_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lean, "STALLED_S", 0.5)
    closed = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 100_000
        finally:
            closed.set()

    async def stream(scope: dict[str, Any], receive: Any, send: Any) -> None:
        answering = asyncio.current_task()
        assert answering
        watching = asyncio.create_task(lean._cancel_when_gone(receive, answering))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with suppress(asyncio.CancelledError):
            async with aclosing(pieces()) as more:  # type: ignore[type-var]
                async for piece in more:
                    await lean.push(scope, send, {"type": "http.response.body", "body": piece, "more_body": True})
        await watching

    async with serving(stream) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(HEAD + b"\r\n")
            await asyncio.wait_for(closed.wait(), PATIENCE_S)
            client.settimeout(PATIENCE_S)
            # What the kernel had taken comes; then the connection is over.
            with suppress(ConnectionResetError):
                while await asyncio.to_thread(client.recv, 1_000_000):
                    pass

    assert not [record for record in caplog.records if record.exc_info]


async def test_a_page_takes_no_body_that_it_would_have_to_write_to_disk(settings: Any) -> None:
    bodies_seen: list[bytes] = []

    async def django(_scope: dict[str, Any], receive: Any, send: Any) -> None:
        bodies_seen.append((await receive())["body"])
        for message in OK:
            await send(message)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await pages.handle(django, scope, receive, send)

    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    async with serving(app) as port:
        for size, status in ((0, b"200"), (limit, b"200"), (limit + 1, b"413")):
            async with connected(port) as (reader, writer):
                writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
                assert status in await asyncio.wait_for(reader.readline(), PATIENCE_S)

    assert [len(body) for body in bodies_seen] == [0, limit]


async def test_a_page_waits_so_long_for_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.3)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await pages.handle(answer_ok, scope, receive, send)

    async with serving(app) as port, connected(port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nx")

        assert b"408" in await asyncio.wait_for(reader.readline(), PATIENCE_S)
        assert (await closed_after(reader))[1] < PATIENCE_S


ASK = HEAD + b"\r\n"


async def accepted(server: uvicorn.Server) -> None:
    """Wait until the server knows of a connection."""
    while not server.server_state.connections:  # noqa: ASYNC110  (it tells nobody)
        await asyncio.sleep(0.01)


async def test_who_asks_a_server_that_leaves_is_told_to_connect_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answer_ok) as port, connected(port) as (reader, writer):
        writer.write(ASK)
        before = await reader.readuntil(b"ok")
        monkeypatch.setattr(BoundedConnection, "is_leaving", True)
        writer.write(ASK)
        last, _ = await closed_after(reader)

    assert b"connection: close" not in before
    assert b"connection: close" in last
    assert last.endswith(b"ok")


@pytest.mark.parametrize("has_asked", [False, True], ids=["new", "kept"])
async def test_a_connection_to_a_replaced_worker_serves_once_more(
    monkeypatch: pytest.MonkeyPatch, has_asked: bool
) -> None:
    monkeypatch.setattr(BoundedConnection, "linger_s", 600.0)
    async with server_of(answer_ok) as (server, port), connected(port) as (reader, writer):
        if has_asked:
            writer.write(ASK)
            await reader.readuntil(b"ok")
        await accepted(server)
        monkeypatch.setattr(BoundedConnection, "is_leaving", True)
        server.should_exit = True
        with suppress(ConnectionError):
            while True:  # until the port is closed
                _, other = await asyncio.open_connection("127.0.0.1", port)
                other.transport.abort()
                await asyncio.sleep(0.05)
        writer.write(ASK)
        last, _ = await closed_after(reader)

    assert last.endswith(b"ok")
    assert b"connection: close" in last


async def test_a_connection_that_nobody_uses_is_closed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "linger_s", 0.2)
    async with server_of(answer_ok) as (server, port), connected(port) as (reader, _):
        await accepted(server)
        server.should_exit = True
        heard, took_s = await closed_after(reader)

    assert (heard, took_s < PATIENCE_S) == (b"", True)
