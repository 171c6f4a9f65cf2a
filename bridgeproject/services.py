"""What a worker process holds while it serves: started once, reached through `gateway()`.

The server announces its life by ASGI's lifespan messages. A server that doesn't (Daphne) gets everything
started by its first request.
"""

import asyncio
import logging
import os
import socket
from typing import Any

from django.conf import settings
from prometheus_client.multiprocess import mark_process_dead

from bridgeproject.leaving import leave_on_signal, stop_with_parent
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
            leave_on_signal(running)
            parent = asyncio.create_task(stop_with_parent(os.getppid()))
            await send({"type": "lifespan.startup.complete"})
        else:
            parent.cancel()
            await running.aclose()
            if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
                mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]
            await send({"type": "lifespan.shutdown.complete"})
            return
