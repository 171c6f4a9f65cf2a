"""When a long history is compacted, and down to what.

All limits are in tokens as `translator.core.estimate` counts them, so that they can be held against its counts: the
window by the upstream's own count is divided by what that count has been to ours.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Limits", "Rules"]

type Mode = Literal["trim", "summary"]

#: No more of the target than this share is spent on a summary, and never more than so many tokens.
SUMMARY_SHARE = 0.25
SUMMARY_TOKENS_MAX = 2_000
#: A tool result larger than this share of the window is clipped to it.
CLIP_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The rules for one upstream model in estimated tokens."""

    #: More than this can't be sent.
    window: float
    #: More than this is compacted.
    above: float
    #: Above this nobody waits for a summary that is being written: the answer needs the room.
    hurry: float
    #: What is compacted becomes no larger than this.
    to: float

    @property
    def summary(self) -> int:
        """Tokens that a summary may take."""
        return int(min(SUMMARY_TOKENS_MAX, self.to * SUMMARY_SHARE))

    @property
    def clip(self) -> float:
        """Tokens that one tool result may take."""
        return self.window * CLIP_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator says of one upstream model."""

    mode: Mode
    #: Tokens that fit in the window by the upstream's count.
    window: int
    #: Compact what is larger than this share of the window, in percent.
    above_percent: int
    #: Down to this share, in percent; well below the other, since each compaction costs the upstream's prompt cache.
    to_percent: int

    def is_over(self, estimate: int, factor: float) -> bool:
        """Tell whether a request is to be compacted at all; the cheap question, asked for each.

        Args:
            estimate: Its tokens as we estimate them.
            factor: What the model's own counts have been to our estimates.
        """
        return estimate * factor * 100 > self.window * self.above_percent

    def limits(self, factor: float) -> Limits:
        """Return the limits in our own tokens."""
        window = self.window / factor
        above = window * self.above_percent / 100
        return Limits(window=window, above=above, hurry=(above + window) / 2, to=window * self.to_percent / 100)
