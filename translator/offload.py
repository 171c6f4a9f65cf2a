"""Work on large bodies, kept off the event loop so that other clients' streams go on meanwhile."""

import asyncio
from collections.abc import Callable

#: Work on smaller bodies is done sooner than a thread could be asked.
LARGE_BYTES = 256 * 1024


async def off_loop[**P, R](size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what `work` returns; in a thread when it is about a body of many bytes."""
    if size < LARGE_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
