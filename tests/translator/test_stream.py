"""A stream to a client, with a run that is played."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from translator.run import Run
from translator.stream import Stream


class StuckRun:
    """A run whose connection to the upstream never closes."""

    prepared = SimpleNamespace(exchange=SimpleNamespace(is_complete=False, wants_more=False, error=None))

    async def leave(self) -> None:
        await asyncio.Event().wait()


async def test_a_stream_whose_closing_is_cut_off_still_lets_go_of_what_it_held() -> None:
    stream = Stream(cast("Run", StuckRun()), b"")
    let_go: list[Any] = []
    stream.when_closed.append(lambda: let_go.append("budgets"))
    closing = asyncio.create_task(stream.aclose())
    await asyncio.sleep(0)

    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing

    assert let_go == ["budgets"]
