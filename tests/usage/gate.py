"""A door between the ledger and Postgres that a test can shut or freeze: fixture `gate`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.ports import keep_port


class Gate:
    """Forwards a TCP port to the server's Unix socket."""

    def __init__(self, dsn: str) -> None:
        parts = conninfo_to_dict(dsn)
        self._dsn = dsn
        self._path = str(Path(str(parts["host"])) / f".s.PGSQL.{parts.get('port', 5432)}")
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._ends: list[asyncio.StreamWriter] = []
        self._moving = asyncio.Event()
        self._moving.set()
        self._keeper = keep_port()  # nobody else gets it while the gate is shut
        self.port: int = self._keeper.getsockname()[1]

    @property
    def dsn(self) -> str:
        return make_conninfo(self._dsn, host="127.0.0.1", port=self.port, sslmode="disable")

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def shut(self) -> None:
        """Refuse connections and cut those there are, as a server that stopped."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)
        for end in self._ends:  # a pipe that was cancelled before it began closed none
            end.close()
        self._ends.clear()

    async def close(self) -> None:
        """Shut it for good."""
        await self.shut()
        self._keeper.close()

    def freeze(self) -> None:
        """Let nothing through, as a server that hangs."""
        self._moving.clear()

    def thaw(self) -> None:
        self._moving.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = self._server
        inner_reader, inner_writer = await asyncio.open_unix_connection(self._path)
        if server is None or self._server is not server:  # it was shut meanwhile
            for one in (writer, inner_writer):
                one.close()
            return
        self._ends += [writer, inner_writer]
        for source, sink in ((reader, inner_writer), (inner_reader, writer)):
            pipe = asyncio.create_task(self._pump(source, sink))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(65536):
                await self._moving.wait()
                sink.write(chunk)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await sink.wait_closed()


@pytest.fixture
async def gate(dsn: str) -> AsyncIterator[Gate]:
    gate = Gate(dsn)
    await gate.open()
    yield gate
    await gate.close()
