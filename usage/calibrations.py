"""Keep what a worker learnt about estimates: read at its start, written every minute.

Workers learn apart; the last one to write is believed by those that start later. All see the same calls by chance,
so their averages are alike.
"""

import asyncio
import logging
from contextlib import suppress

import psycopg

from keys.tasks import end_task
from translator.core.calibration import PLACES_MAX, Calibration, Measured, Place
from usage.cleaning import clean_text
from usage.connection import AWAY, LedgerConnection

logger = logging.getLogger(__name__)

WRITE_EVERY_S = 60.0
NAME_MAX = 256

READ = f"""
SELECT upstream_id, upstream_model, ratio, deviation, samples FROM usage_inputcalibration
ORDER BY measured_at DESC LIMIT {PLACES_MAX}
"""  # noqa: S608  (a number of our own)
WRITE = """
INSERT INTO usage_inputcalibration (upstream_id, upstream_model, ratio, deviation, samples)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (upstream_id, upstream_model) DO UPDATE SET
  ratio = EXCLUDED.ratio, deviation = EXCLUDED.deviation, samples = EXCLUDED.samples, measured_at = now()
"""


class CalibrationStore:
    """Reads and writes one worker's calibration. Losing a minute of it does no harm, so nothing here raises."""

    def __init__(self, dsn: str, calibration: Calibration) -> None:
        self._connection = LedgerConnection(dsn)
        self._calibration = calibration
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Recall what was known, then write in a task. Postgres may be away."""
        with suppress(psycopg.Error, *AWAY):
            self._calibration.recall(await self._read())
        self._task = asyncio.create_task(self._run(), name="calibration")

    async def close(self) -> None:
        """Stop, and write what is new."""
        await end_task(self._task)
        await self.write()

    async def write(self) -> None:
        """Write what is new; the connection is not kept, as a minute passes before it is needed again."""
        statements = [(WRITE, _row(place, known)) for place, known in self._calibration.take_changed()]
        if not statements:
            return
        try:
            await self._connection.run(statements)
        except (psycopg.Error, *AWAY) as exc:
            logger.warning("calibration of estimates was not kept: %s", exc)
        finally:
            await self._connection.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            await self.write()

    async def _read(self) -> dict[Place, Measured]:
        [cursor] = await self._connection.run([(READ, [])])
        rows = await cursor.fetchall()
        await self._connection.close()
        return {
            (upstream_id, model): Measured(ratio=ratio, deviation=deviation, samples=samples)
            for upstream_id, model, ratio, deviation, samples in reversed(rows)
        }


def _row(place: Place, known: Measured) -> list[object]:
    upstream_id, model = place
    return [upstream_id, clean_text(model, NAME_MAX), known.ratio, known.deviation, known.samples]
