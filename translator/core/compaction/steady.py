"""The factor of calibration, held still.

What a model's counts are to our estimates drifts with every answer. Were the limits of compaction to drift along, so would
the cuts, and with each the upstream's prompt cache would be lost. So the factor stays on a step of a ladder until it
has left it for good.
"""

from math import ceil, log

from translator.core.calibration import PLACES_MAX, Place

__all__ = ["SteadyFactors"]

#: From step to step of the ladder. The same for all workers, so that they come to stand on the same one.
STEP = 1.1
#: A factor so many steps below the one that is held has gone down.
STEPS_DOWN = 2


class SteadyFactors:
    """The factors that one worker holds, by upstream model."""

    def __init__(self) -> None:
        """Hold none."""
        self._held: dict[Place, float] = {}

    def at(self, place: Place, factor: float) -> float:
        """Return the factor to use; never less than `factor`, and mostly the same as last time."""
        held = self._held.get(place, 0.0)
        if factor > held or factor < held / STEP**STEPS_DOWN:
            held = self._held[place] = STEP ** ceil(round(log(factor, STEP), 9))
            while len(self._held) > PLACES_MAX:
                del self._held[next(iter(self._held))]
        return held
