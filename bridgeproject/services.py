"""What a worker process holds while it serves: started once, reached through `gateway()`.

The server announces its life by ASGI's lifespan messages. A server that doesn't (Daphne) gets everything
started by its first request.
"""

import asyncio
import logging
import os
import signal
import socket
from typing import Any

from django.conf import settings
from prometheus_client.multiprocess import mark_process_dead

from bridgeproject.scrub import ScrubbingFormatter
from translator.relay import Gateway
from translator.running import Places
from usage.alerts import Addresses

logger = logging.getLogger(__name__)

_gateway: Gateway | None = None
_starting: asyncio.Lock | None = None


async def gateway() -> Gateway:
    """Return this process's gateway, started."""
    global _gateway, _starting
    if _gateway is not None:
        return _gateway
    _starting = _starting or asyncio.Lock()
    async with _starting:
        if _gateway is None:
            _gateway = await _start()
    return _gateway


async def _start() -> Gateway:
    started = Gateway(
        conninfo=settings.DATABASE_CONNINFO,
        spool_dir=settings.DATA_DIR / "spool",
        encryption_keys=settings.ENCRYPTION_KEYS,
        allowed_upstreams=settings.ALLOW_PRIVATE_UPSTREAMS,
        redis_url=settings.REDIS_URL,
        queue_s=settings.QUEUE_S,
        queue_max=settings.QUEUE_MAX,
        summary_wait_s=settings.SUMMARY_WAIT_S,
        places=Places(all=settings.CALLS_MAX, member=settings.CALLS_PER_MEMBER_MAX),
        alerts=Addresses(emails=settings.ALERT_EMAILS, webhook=settings.ALERT_WEBHOOK),
        worker=f"{socket.gethostname()}:{os.getpid()}",
    )
    await started.start()
    ScrubbingFormatter.held = staticmethod(started.directory.secrets)
    return started


async def lifespan(receive: Any, send: Any) -> None:
    """Answer the server's lifespan messages."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                running = await gateway()
            except Exception as exc:
                logger.exception("Bridge can't start")
                await send({"type": "lifespan.startup.failed", "message": str(exc)})
                return
            _drain_on_signal(running)
            parent = asyncio.create_task(_stop_with_parent(os.getppid()))
            await send({"type": "lifespan.startup.complete"})
        else:
            parent.cancel()
            await running.aclose()
            if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
                mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]
            await send({"type": "lifespan.shutdown.complete"})
            return


def _drain_on_signal(running: Gateway) -> None:
    """Begin to drain when the server is told to stop, then let the server's own handler act."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        serve = signal.getsignal(number)

        def stop(received: int, frame: Any, serve: Any = serve) -> None:
            loop.call_soon_threadsafe(running.drain, settings.DRAIN_S)
            if callable(serve):
                serve(received, frame)

        signal.signal(number, stop)


async def _stop_with_parent(parent: int) -> None:
    """Stop this worker when the process that started it was killed: nobody would restart or stop it."""
    while os.getppid() == parent:  # noqa: ASYNC110  (the system tells nobody)
        await asyncio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
