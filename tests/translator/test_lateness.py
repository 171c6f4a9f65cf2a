"""A loop that is held up says so, and one that isn't says nothing."""

import asyncio
import logging
import time
from types import SimpleNamespace

import pytest
from prometheus_client import REGISTRY

from tests.leaping import LeapingLoop, leaping
from translator import lateness
from translator.lateness import EVERY_S, Lateness

HELD_UP = "the event loop was held up"


@pytest.fixture(autouse=True)
def warnings_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


def shown_after(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> float:
    """Hold a loop up so long, one time after the other, and return what is shown then."""

    async def work() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LeapingLoop)
        monkeypatch.setattr(lateness, "time", SimpleNamespace(monotonic=loop.time))
        made = Lateness()
        made.start()
        await asyncio.sleep(2 * EVERY_S)
        for length_s in seconds:
            loop.hold_up(length_s)
            await asyncio.sleep(2 * EVERY_S)
        await made.close()
        return shown()

    return leaping(work())


def shown() -> float:
    value = REGISTRY.get_sample_value("bridge_loop_lateness_seconds")
    assert value is not None
    return value


def test_a_loop_that_runs_is_hardly_late(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    assert shown_after(monkeypatch) < 0.3
    assert HELD_UP not in caplog.text


def test_a_short_hold_up_is_shown_and_not_worth_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert 0.3 <= shown_after(monkeypatch, 0.6) < 1
    assert HELD_UP not in caplog.text


def test_a_long_one_is_told_of_once_with_its_length(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert 1.3 <= shown_after(monkeypatch, 1.6, 1.3) < 2.5
    [warning] = [record.getMessage() for record in caplog.records if HELD_UP in record.getMessage()]
    assert 1.3 <= float(warning.split()[-5]) <= 2.5


async def test_what_really_holds_a_loop_up_is_shown() -> None:
    made = Lateness()
    made.start()
    await asyncio.sleep(EVERY_S / 5)
    time.sleep(0.6)  # noqa: ASYNC251  (what no code may do)
    await asyncio.sleep(EVERY_S)
    await made.close()

    assert shown() >= 0.3
