"""A loop that is held up says so, and one that isn't says nothing."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from translator.lateness import EVERY_S, Lateness

HELD_UP = "the event loop was held up"


@pytest.fixture
async def lateness() -> AsyncIterator[Lateness]:
    made = Lateness()
    made.start()
    await asyncio.sleep(2 * EVERY_S)
    yield made
    await made.close()


async def hold_up(seconds: float) -> None:
    """Do what no code may do, then let the loop find out."""
    time.sleep(seconds)  # noqa: ASYNC251
    await asyncio.sleep(2 * EVERY_S)


def shown() -> float:
    value = REGISTRY.get_sample_value("bridge_loop_lateness_seconds")
    assert value is not None
    return value


async def test_a_loop_that_runs_is_hardly_late(lateness: Lateness, caplog: pytest.LogCaptureFixture) -> None:
    assert shown() < 0.3
    assert HELD_UP not in caplog.text


async def test_a_short_hold_up_is_shown_and_not_worth_a_warning(
    lateness: Lateness, caplog: pytest.LogCaptureFixture
) -> None:
    await hold_up(0.6)

    assert 0.3 <= shown() < 1
    assert HELD_UP not in caplog.text


async def test_a_long_one_is_told_of_once_with_its_length(lateness: Lateness, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await hold_up(1.6)
        await hold_up(1.3)

    assert 1.3 <= shown() < 2.5
    [warning] = [record.getMessage() for record in caplog.records if HELD_UP in record.getMessage()]
    assert 1.3 <= float(warning.split()[-5]) <= 2.5
