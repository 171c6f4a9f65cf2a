"""Several workers on one port: started again when they die, replaced one by one without closing the port.

uvicorn's own supervisor waits for each old worker's last call before it looks at anything else: it would neither stop
nor mind the other workers meanwhile. Here a replacement is a few steps of the loop that looks after all of them.
"""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from socket import socket

from django.conf import settings
from prometheus_client.multiprocess import mark_process_dead
from uvicorn import Config
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from bridgeproject.leaving import RETIRE

logger = logging.getLogger(__name__)

#: So long may a new worker take to serve; then the restart is given up and the old ones stay.
READY_WITHIN_S = 60
#: Where the numbers of all workers meet.
SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"


def bring_tables_up_to_date() -> "subprocess.Popen[bytes]":
    """Start to migrate a database that is ours alone; of another, only look whether somebody did. By the code on disk,
    which new workers will run, in a process of its own."""
    options = ["--check"] if settings.DATABASE_URL else ["--no-input"]
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "migrate", *options]
    # It is no worker: what it would count is nobody's.
    environment = {name: value for name, value in os.environ.items() if name != SHARED_METRICS}
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # noqa: S603  (our own)


class Supervisor(Multiprocess):
    """uvicorn's supervisor, which SIGHUP doesn't hold up, and which clears up after workers that died.

    Args:
        restarts: SIGHUP replaces the workers; otherwise (a closed terminal) it stops them as SIGTERM does.
        prepare: Starts what must succeed before the first worker is replaced.
    """

    def __init__(
        self,
        config: Config,
        sockets: list[socket],
        *,
        restarts: bool,
        prepare: "Callable[[], subprocess.Popen[bytes]]" = bring_tables_up_to_date,
    ) -> None:
        super().__init__(config, sockets)
        self._restarts = restarts
        self._prepare = prepare
        self._preparing: subprocess.Popen[bytes] | None = None
        self._outgoing: list[Process] = []
        self._incoming: Process | None = None
        self._incoming_until = 0.0
        #: Workers that end their last calls.
        self._retired: list[Process] = []

    def handle_hup(self) -> None:
        if not self._restarts:
            self.handle_term()
        elif self._preparing is None and not self._outgoing:
            self._preparing = self._prepare()

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        super().keep_subprocess_alive()
        for gone in before:
            if gone not in self.processes:
                logger.error("worker %s died; another takes its place", gone.pid)
                _forget_gauges(gone)
        self._bury_retired()
        if not self.should_exit.is_set():
            self._go_on_with_restart()

    def terminate_all(self) -> None:
        super().terminate_all()
        if self._incoming is not None:
            self._incoming.terminate()

    def join_all(self) -> None:
        super().join_all()
        for process in (*self._retired, *([self._incoming] if self._incoming else [])):
            process.join()
        if self._preparing is not None:
            self._preparing.wait()

    def _go_on_with_restart(self) -> None:
        """Take the next step that needs no waiting."""
        if self._preparing is not None:
            if (status := self._preparing.poll()) is None:
                return
            self._preparing = None
            if status != 0:
                logger.error("workers aren't replaced: the database's tables are older than the code; migrate first")
                return
            self._outgoing = list(self.processes)
        if self._incoming is not None:
            self._take_in(self._incoming)
        elif self._outgoing:
            self._incoming = Process(self.config, self.sockets)
            self._incoming.start()
            self._incoming_until = time.monotonic() + READY_WITHIN_S

    def _take_in(self, incoming: Process) -> None:
        if not incoming.process.is_alive() or time.monotonic() > self._incoming_until:
            logger.error("workers aren't replaced: a new one didn't begin to serve; the old ones go on")
            incoming.kill()
            incoming.join()
            _forget_gauges(incoming)
            self._incoming, self._outgoing = None, []
        elif incoming.is_ready(timeout=0.1):
            old = self._outgoing.pop(0)
            self._incoming = None
            if old not in self.processes:  # it died meanwhile, so another of the new code has its place already
                self._retire(incoming)
                return
            self.processes[self.processes.index(old)] = incoming
            self._retire(old)

    def _retire(self, process: Process) -> None:
        if process.pid is not None and process.process.is_alive():
            os.kill(process.pid, RETIRE)
        self._retired.append(process)

    def _bury_retired(self) -> None:
        for process in [one for one in self._retired if not one.process.is_alive()]:
            process.join()
            _forget_gauges(process)
            self._retired.remove(process)


def _forget_gauges(dead: Process) -> None:
    """Take what a dead worker held at the last out of the sum: it could not do so itself. What it counted stays."""
    if dead.pid is not None and SHARED_METRICS in os.environ:
        mark_process_dead(dead.pid)  # type: ignore[no-untyped-call]
