"""What a worker learnt about estimates outlives it."""

from collections.abc import Callable
from typing import Any

import pytest

from translator.core.calibration import Calibration
from usage.calibrations import CalibrationStore

PLACE = (7, "glm-5")


def taught(ratio: float) -> Calibration:
    calibration = Calibration()
    for _ in range(3):
        calibration.learn(PLACE, estimate=1000, actual=round(1000 * ratio))
    return calibration


async def recalled(dsn: str) -> Calibration:
    calibration = Calibration()
    store = CalibrationStore(dsn, calibration)
    await store.start()
    await store.close()
    return calibration


async def test_what_was_learnt_is_there_at_the_next_start(dsn: str) -> None:
    await CalibrationStore(dsn, taught(1.3)).close()

    assert (await recalled(dsn)).factor(PLACE) == pytest.approx(1.3)


async def test_the_last_word_counts(dsn: str, query: Callable[..., list[dict[str, Any]]]) -> None:
    await CalibrationStore(dsn, taught(1.3)).write()
    await CalibrationStore(dsn, taught(0.9)).write()

    [row] = query("SELECT * FROM usage_inputcalibration")
    assert row["ratio"] == pytest.approx(0.9)
    assert row["samples"] == 3


async def test_nothing_is_written_twice(dsn: str, query: Callable[..., list[dict[str, Any]]]) -> None:
    store = CalibrationStore(dsn, taught(1.3))
    await store.write()
    query("DELETE FROM usage_inputcalibration")

    await store.write()

    assert query("SELECT * FROM usage_inputcalibration") == []


async def test_a_database_that_is_away_does_no_harm() -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    store = CalibrationStore(nowhere, taught(1.3))

    await store.start()
    await store.close()
