"""Work on large bodies, kept off the event loop so that other clients' streams go on meanwhile.

It has threads of its own: names are looked up and spools are written in those of the loop. Two, since such work holds
the interpreter most of the time: more of them would only make the loop wait longer for its turn.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

#: Work on smaller bodies is done sooner than a thread could be asked.
LARGE_BYTES = 256 * 1024
THREADS = 2
#: Large bodies of so many bytes together may be worked on or wait for it; a request that brings another one is refused.
INSIDE_BYTES_MAX = 128 * 1024 * 1024

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large bodies")
#: What is not done yet, with its bytes; work whose client is gone is among it until its thread is free.
_inside: dict[Future[Any], int] = {}


def is_crowded(size: int) -> bool:
    """Tell whether a request with a body of so many bytes comes at a bad time."""
    waiting = sum(tuple(_inside.values()))  # a copy: threads take theirs out meanwhile
    return size >= LARGE_BYTES and waiting >= INSIDE_BYTES_MAX


async def off_loop[**P, R](size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what `work` returns; in a thread when it is about a body of many bytes."""
    if size < LARGE_BYTES:
        return work(*args, **kwargs)
    future = _threads.submit(partial(work, *args, **kwargs))
    _inside[future] = size
    future.add_done_callback(_inside.pop)
    return await asyncio.wrap_future(future)
