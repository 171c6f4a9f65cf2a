"""How a serving process leaves: what it says, what it still takes, when it ends.

* SIGTERM, a stop: `/readyz` says 503, calls are taken for `NOTICE_S` more so that a load balancer looks elsewhere
  first, then the port is closed and running calls get `DRAIN_S`. A second one cuts the notice short; a supervisor passes
  none on.
* SIGINT, and SIGHUP of a lone process: the same without notice.
* `RETIRE`, from the supervisor to a worker: another has its place. The port stays open and ready.
"""

import asyncio
import multiprocessing
import os
import signal
from typing import Any

from django.conf import settings

from bridgeproject.connection import BoundedConnection
from translator.relay import Gateway

RETIRE = signal.SIGUSR1
#: So long may clients use a connection that they keep to a retired worker, once more, in seconds.
LINGER_S = 5.0


def leave_on_signal(running: Gateway) -> None:
    """Begin to leave when told to, then let the server's own handler act."""
    loop = asyncio.get_running_loop()
    is_worker = multiprocessing.parent_process() is not None
    serve: Any = signal.getsignal(signal.SIGTERM)
    is_noticed = False

    def end(number: int, frame: Any = None) -> None:
        loop.call_soon_threadsafe(running.drain, settings.DRAIN_S)
        if callable(serve):
            serve(number, frame)

    def stop(number: int, frame: Any) -> None:
        nonlocal is_noticed
        loop.call_soon_threadsafe(running.say_leaving)
        BoundedConnection.is_leaving = True
        if number == signal.SIGTERM and settings.NOTICE_S > 0 and not is_noticed:
            is_noticed = True
            loop.call_soon_threadsafe(lambda: loop.call_later(settings.NOTICE_S, end, number))
        else:
            # Its end raises the signal again, and only these two are waited for there.
            end(signal.SIGTERM if number == signal.SIGHUP else number, frame)

    def retire(_number: int, frame: Any) -> None:
        BoundedConnection.is_leaving = True
        BoundedConnection.linger_s = LINGER_S
        end(signal.SIGTERM, frame)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if is_worker else stop)
    if is_worker:
        signal.signal(RETIRE, retire)


async def stop_with_parent(parent: int) -> None:
    """Stop this worker when the process that started it was killed: nobody would restart or stop it."""
    while os.getppid() == parent:  # noqa: ASYNC110  (the system tells nobody)
        await asyncio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
