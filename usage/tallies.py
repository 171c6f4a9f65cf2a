"""How one upstream model did in one time, in numbers, and whether it did otherwise than before.

Shares are of the attempts that the upstream ended. Where the client left, nothing was sent, or our worker died, nobody
knows how the upstream would have done.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from usage.histogram import percentile_ms
from usage.states import State

#: What is measured, as a part of what; see `Tally`.
SHARES = {
    "answered": "ended",
    "truncated": "ended",
    "timeout": "ended",
    "errors": "ended",
    "estimated": "answered",
    "mended": "answered",
    "repaired": "emulated",
}
TIMES = {"ttft_p50_ms": 0.5, "ttft_p95_ms": 0.95}
#: A change of shares is told from so many on, and from so many standard errors: one in a hundred is chance.
COUNT_MIN, ERRORS_MIN = 20, 2.6
#: A change of times is told from so many answers on; buckets don't know it better than this.
TIMES_MIN, TIMES_FACTOR = 50, 1.1


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of a model's attempts in one time."""

    states: Counter[str] = field(default_factory=Counter)
    #: Upstream errors by their type.
    error_types: Counter[str] = field(default_factory=Counter)
    #: Answers whose tokens the upstream didn't count to the end.
    estimated: int = 0
    #: Of the times to the first token; empty where none are known.
    ttft_histogram: list[int] = field(default_factory=list)
    #: Answers in which anything was mended; those to tools told in the prompt, and how many of these were repaired.
    #: None where the records are gone that would tell.
    mended: int | None = 0
    emulated: int | None = 0
    repaired: int | None = 0

    @property
    def attempts(self) -> int:
        return self.states.total()

    @property
    def answered(self) -> int:
        return self.states[State.OK]

    @property
    def truncated(self) -> int:
        return self.states[State.TRUNCATED]

    @property
    def timeout(self) -> int:
        return self.states[State.TIMEOUT]

    @property
    def errors(self) -> int:
        return self.states[State.UPSTREAM_ERROR]

    @property
    def ended(self) -> int:
        """Attempts that the upstream ended, well or not."""
        return self.answered + self.truncated + self.timeout + self.errors

    def share(self, name: str) -> float | None:
        """Return one of `SHARES`; None where it is of nothing."""
        part, whole = getattr(self, name), getattr(self, SHARES[name])
        return part / whole if whole and part is not None else None

    def time_ms(self, name: str) -> int | None:
        """Return one of `TIMES`, in milliseconds; None without any."""
        return percentile_ms(self.ttft_histogram, TIMES[name])


@dataclass(slots=True, kw_only=True)
class Fared:
    """How an upstream model did, and how in the time before."""

    upstream_id: int | None
    upstream: str
    model: str
    now: Tally = field(default_factory=Tally)
    before: Tally = field(default_factory=Tally)
    #: On how many records each note stands, also on those without an answer.
    notes: Counter[str] = field(default_factory=Counter)

    def change(self, name: str) -> float | None:
        """Return by how much one of `SHARES` changed; None where that may well be chance."""
        now, before = self.now.share(name), self.before.share(name)
        wholes = [getattr(tally, SHARES[name]) for tally in (self.now, self.before)]
        if now is None or before is None or min(wholes) < COUNT_MIN:
            return None
        both = (now * wholes[0] + before * wholes[1]) / sum(wholes)
        error = sqrt(both * (1 - both) * (1 / wholes[0] + 1 / wholes[1]))
        return now - before if abs(now - before) > ERRORS_MIN * error else None

    def time_change(self, name: str) -> float | None:
        """Return by which part one of `TIMES` changed; None where it hardly did, or rests on few answers."""
        now, before = self.now.time_ms(name), self.before.time_ms(name)
        if not now or not before or min(sum(one.ttft_histogram) for one in (self.now, self.before)) < TIMES_MIN:
            return None
        return now / before - 1 if max(now / before, before / now) >= TIMES_FACTOR else None


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def as_row(fared: Fared) -> dict[str, Any]:
    """Write it as the flat row of a table: counts, shares, times in milliseconds, and the shares of the time before."""
    now, before = fared.now, fared.before
    return {
        "upstream": fared.upstream,
        "upstream_id": fared.upstream_id,
        "model": fared.model,
        "attempts": now.attempts,
        **{state.value: now.states[state] for state in State if state is not State.OPEN},
        **{name: getattr(now, name) for name in ("estimated", "mended", "emulated", "repaired")},
        **{f"{name}_share": _rounded(now.share(name)) for name in SHARES},
        **{name: now.time_ms(name) for name in TIMES},
        "attempts_before": before.attempts,
        **{f"{name}_share_before": _rounded(before.share(name)) for name in SHARES},
        **{f"{name}_before": before.time_ms(name) for name in TIMES},
        "error_types": dict(now.error_types.most_common()),
        "notes": dict(fared.notes.most_common()),
    }


ANSWER_COLUMNS = tuple(as_row(Fared(upstream_id=None, upstream="", model="")))


def as_csv_row(fared: Fared) -> dict[str, Any]:
    """Write the same with what is counted by name as lists: `api_error=3`."""
    row = as_row(fared)
    for column in ("error_types", "notes"):
        row[column] = [f"{name}={count}" for name, count in row[column].items()]
    return row
