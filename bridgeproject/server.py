"""Run the ASGI server, uvicorn, in this process or in several workers."""

import fcntl
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn
from django.conf import settings
from django.core.management import CommandError

from bridgeproject.connection import BoundedConnection
from bridgeproject.supervisor import SHARED_METRICS, Supervisor

#: Added to the drain limit before the server itself cuts what still runs, in seconds.
DRAIN_MARGIN_S = 5


def bind(host: str, port: int) -> socket.socket:
    """Take the port before anything else starts: a port in use is said at once, and early clients wait in line.

    Raises:
        CommandError: The address can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        taken.listen(2048)
    except OSError as exc:
        msg = f"can't listen on {host}:{port}: {exc.strerror}. Is another server running there? Try --port."
        raise CommandError(msg) from exc
    taken.set_inheritable(True)
    return taken


def run(listener: socket.socket, *, workers: int, restarts: bool = False) -> None:
    """Serve until told to stop; running streams get `settings.DRAIN_S` seconds to end.

    Args:
        listener: The port, open.
        workers: How many processes.
        restarts: SIGHUP replaces them by others, if they are several; otherwise it means stop.
    """
    # Memory holds opened credentials: it must not be written anywhere. Workers inherit the limit.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    config = uvicorn.Config(
        "bridgeproject.asgi:application",
        workers=workers,
        http=BoundedConnection,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.DRAIN_S + DRAIN_MARGIN_S,
        timeout_keep_alive=75,
        ws_max_size=64 * 1024,
    )
    signal.signal(signal.SIGTERM, _leave)
    try:
        if workers > 1:
            _share_metrics()
            Supervisor(config, [listener], restarts=restarts).run()
        else:
            uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        return


def _share_metrics() -> None:
    """Give the workers an empty directory in which their numbers meet, and clear away those of ended servers.

    Another server may run on the same data directory, so each locks its own for as long as it lives.
    """
    directories = settings.DATA_DIR / "metrics"
    directories.mkdir(parents=True, exist_ok=True)
    # Else one that starts at the same time might clear ours away before it is locked.
    turn = os.open(directories, os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    for old in directories.iterdir():
        with suppress(OSError):
            if old.is_dir():
                os.close(_locked(old))
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink()
    ours = tempfile.mkdtemp(dir=directories)
    _locked(Path(ours))
    os.close(turn)
    os.environ[SHARED_METRICS] = ours


def _locked(directory: Path) -> int:
    file = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End by an exception, so that what was started is stopped: uvicorn raises its signals again at its end."""
    sys.exit(0)
