"""How far the estimate of input tokens is off, learnt from what upstreams really counted.

Tokenizers differ by model, and so do templates and prices of images. Each complete answer tells the true count of its
input; the ratio to our estimate is averaged for each upstream model, newer answers counting more.

A factor aims a little high: by half the average distance of the answers from their average. A client that is told a little
too much compacts a little early, one that is told too little overruns the window.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

__all__ = ["Calibration", "Measured", "Place"]

#: An upstream's id and its model's name.
type Place = tuple[int, str]

#: What an answer counts beside those before it, once there are more than its inverse.
WEIGHT = 0.05
#: Fewer answers than these are chance.
SAMPLES_MIN = 3
#: Requests estimated shorter than this tell of the upstream's template, not of its tokenizer.
ESTIMATE_MIN = 100
FACTOR_MIN, FACTOR_MAX = 0.5, 2.0
#: How much of the deviation is added, to be rather high than low.
CAUTION = 0.5
#: One absurd count must not move the average beyond reason.
RATIO_MIN, RATIO_MAX = 0.25, 4.0
#: So many upstream models are remembered; where routes pass any name through, clients make up the names.
PLACES_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is known of one upstream model."""

    #: Input tokens by the upstream's count to those by our estimate, on average.
    ratio: float
    #: How far single answers lie from that, on average.
    deviation: float = 0.0
    samples: int = 1

    def with_sample(self, ratio: float) -> "Measured":
        """Return what is known after one more answer."""
        samples = self.samples + 1
        weight = max(WEIGHT, 1 / samples)
        off = ratio - self.ratio
        return replace(
            self,
            ratio=self.ratio + weight * off,
            deviation=self.deviation + weight * (abs(off) - self.deviation),
            samples=samples,
        )

    @property
    def factor(self) -> float:
        """What to multiply an estimate by; 1 while too little is known."""
        if self.samples < SAMPLES_MIN:
            return 1.0
        return min(FACTOR_MAX, max(FACTOR_MIN, self.ratio + CAUTION * self.deviation))


class Calibration:
    """What is known of all upstream models, by the answers of one worker."""

    def __init__(self) -> None:
        """Know nothing."""
        self._measured: dict[Place, Measured] = {}
        self._changed: set[Place] = set()

    def learn(self, place: Place, *, estimate: int, actual: int) -> None:
        """Take in one complete answer.

        Args:
            place: Who counted.
            estimate: The input by our estimate, with the factor 1.
            actual: The whole input by the upstream's count, cached tokens included.
        """
        if estimate < ESTIMATE_MIN or actual <= 0:
            return
        ratio = min(RATIO_MAX, max(RATIO_MIN, actual / estimate))
        known = self._measured.pop(place, None)
        self._measured[place] = known.with_sample(ratio) if known else Measured(ratio=ratio)
        self._changed.add(place)
        while len(self._measured) > PLACES_MAX:
            self._forget(next(iter(self._measured)))

    def factor(self, place: Place) -> float:
        """Return what to multiply an estimate for this upstream model by."""
        known = self._measured.get(place)
        return known.factor if known else 1.0

    def recall(self, measured: Mapping[Place, Measured]) -> None:
        """Take over what was known earlier, except where more has been learnt meanwhile."""
        self._measured = {**measured, **self._measured}

    def take_changed(self) -> Iterator[tuple[Place, Measured]]:
        """Yield what is to be kept, each change once."""
        while self._changed:
            place = self._changed.pop()
            yield place, self._measured[place]

    def _forget(self, place: Place) -> None:
        del self._measured[place]
        self._changed.discard(place)
