"""Tasks that run beside the requests until their owner closes."""

import asyncio
from contextlib import suppress
from typing import Any


async def end_task(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task and wait until it is over; nothing happens where none was begun."""
    if task is None:
        return
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
