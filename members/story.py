"""A session's cost story: how it compares with a member's other sessions, and what the cache had to do with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from members.agents import Part, Request
from members.cache_misses import Miss
from members.figures import NANO

#: With fewer other sessions there is no usual cost.
COMPARED_MIN = 3
#: Up to this it is an ordinary session.
ORDINARY_TIMES = 1.5
#: From this share of the difference on the misses explain it.
EXPLAINS_SHARE = 0.5
#: So many requests are drawn, the latest.
TURNS_MAX = 120
CHART_HEIGHT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What there is to say of a session's cost."""

    #: Among a member's sessions, the dearest first, counted with this one.
    place: int
    count: int
    #: What the other sessions usually cost; None with too few of them.
    median_nano: float | None
    cost_nano: int
    misses: Sequence[Miss]

    @property
    def times_median(self) -> float | None:
        """How often the usual cost goes into this one's; None where there is no usual cost."""
        return self.cost_nano / self.median_nano if self.median_nano else None

    @property
    def is_dear(self) -> bool:
        return (self.times_median or 0) > ORDINARY_TIMES

    @property
    def median_usd(self) -> float:
        return (self.median_nano or 0) / NANO

    @property
    def missed_tokens(self) -> int:
        return sum(miss.missed_tokens for miss in self.misses)

    @property
    def extra_nano(self) -> int:
        return sum(miss.extra_nano or 0 for miss in self.misses)

    @property
    def extra_usd(self) -> float:
        return self.extra_nano / NANO

    @property
    def missed_from(self) -> datetime:
        return self.misses[0].at

    @property
    def is_explained(self) -> bool:
        """Whether the misses are most of what it cost more than usual."""
        return self.is_dear and self.extra_nano >= EXPLAINS_SHARE * (self.cost_nano - (self.median_nano or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A request as a bar: its input, from the cache and read anew."""

    at: datetime
    cached_tokens: int
    fresh_tokens: int
    is_missed: bool
    #: In the picture: from the left, and the heights of both parts above its ground.
    left: int
    cached_height: float
    fresh_height: float

    @property
    def fresh_top(self) -> float:
        return CHART_HEIGHT - self.cached_height - self.fresh_height

    @property
    def cached_top(self) -> float:
        return CHART_HEIGHT - self.cached_height


def tell(cost_nano: int, others: Sequence[int], misses: Sequence[Miss]) -> Story:
    """Compare a session's cost with those of the others."""
    return Story(
        place=1 + sum(cost > cost_nano for cost in others),
        count=len(others) + 1,
        median_nano=median(others) if len(others) >= COMPARED_MIN else None,
        cost_nano=cost_nano,
        misses=misses,
    )


def turns_of(part: Part, misses: Sequence[Miss]) -> list[Turn]:
    """Draw a part's requests side by side; the longest input fills the height."""
    missed = {miss.at for miss in misses if miss.part == part.name}
    shown = part.requests[-TURNS_MAX:]
    most = max(request.all_input_tokens for request in shown)
    return [_turn(left, request, most, is_missed=request.started_at in missed) for left, request in enumerate(shown)]


def _turn(left: int, request: Request, most: int, *, is_missed: bool) -> Turn:
    fresh = request.all_input_tokens - request.cache_read_tokens
    return Turn(
        at=request.started_at,
        cached_tokens=request.cache_read_tokens,
        fresh_tokens=fresh,
        is_missed=is_missed,
        left=left,
        cached_height=round(CHART_HEIGHT * request.cache_read_tokens / most, 2),
        fresh_height=round(CHART_HEIGHT * fresh / most, 2),
    )
