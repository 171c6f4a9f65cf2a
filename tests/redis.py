"""A Redis of the tests' own: fixture `redis_url`; whoever uses it is skipped where there is no redis-server."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import keep_port

START_WITHIN_S = 60


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one server for the whole run."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server on this machine")
    folder = tmp_path_factory.mktemp("redis")
    words = [program, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder), "--port"]
    with keep_port() as keeper, (folder / "log").open("w") as log:
        port = keeper.getsockname()[1]
        server = subprocess.Popen([*words, str(port)], stdout=log)
        try:
            wait_for(port, folder / "log")
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The same server, with nothing in it."""
    host, port = redis_server.removeprefix("redis://").removesuffix("/0").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        assert connection.recv(100) == b"+OK\r\n"
    return redis_server


def wait_for(port: int, log: Path) -> None:
    until = time.monotonic() + START_WITHIN_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
