"""Times in buckets: small enough to store per hour, fine enough for percentiles.

Bounds grow by about a third; a percentile read from them is off by at most that, and by far less in practice.
"""

from collections.abc import Sequence

#: Upper bounds in milliseconds; what is above the last lies in one bucket more.
BOUNDS_MS = (
    20, 30, 40, 55, 75, 100, 130, 175, 235, 315, 420, 560, 750, 1000, 1300, 1750, 2350, 3150, 4200, 5600, 7500,
    10_000, 13_000, 17_500, 23_500, 31_500, 42_000, 56_000, 75_000, 100_000, 180_000, 300_000, 600_000,
)  # fmt: skip
BUCKETS = len(BOUNDS_MS) + 1


def percentile_ms(histogram: Sequence[int], fraction: float) -> int | None:
    """Return the time below which `fraction` of the entries lie, in milliseconds; None when there are none."""
    total = sum(histogram)
    if not total:
        return None
    wanted, seen = fraction * total, 0
    for place, count in enumerate(histogram):
        if count and seen + count >= wanted:
            low = BOUNDS_MS[place - 1] if place else 0
            high = BOUNDS_MS[place] if place < len(BOUNDS_MS) else low
            return round(low + (high - low) * (wanted - seen) / count)
        seen += count
    return BOUNDS_MS[-1]
