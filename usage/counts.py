"""Upstream usage is a claim, not a fact: what is absurd is cut down and flagged.

The rule per count: a whole number, at least 0, at most 10**8, output at most ten times what the client allowed,
thinking at most the output, cache writes for an hour at most all cache writes. What breaks it is cut to the bound (no number at all: to 0), the record gets a note
that names the count, and its source falls from `upstream` to `estimated`: it no longer is the upstream's word.
"""

from dataclasses import dataclass

from usage.states import Source

TOKENS_MAX = 10**8
OUTPUT_FACTOR_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tokens by kind. Input excludes cached ones; output includes thinking."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    #: Of the cache writes, those for an hour.
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0


def check_counts(counts: Counts, source: str, *, max_tokens: int | None) -> tuple[Counts, str, tuple[str, ...]]:
    """Return the counts as they may be stored, their source, and a note for each one that was changed.

    Args:
        counts: As the upstream said; the values may be of any type.
        source: One of `Source`.
        max_tokens: What the client allowed; None when unknown.
    """
    notes: list[str] = []
    output_max = min(TOKENS_MAX, max_tokens * OUTPUT_FACTOR_MAX) if max_tokens and max_tokens > 0 else TOKENS_MAX
    output = _checked("output", counts.output_tokens, output_max, notes)
    written = _checked("cache_write", counts.cache_write_tokens, TOKENS_MAX, notes)
    checked = Counts(
        input_tokens=_checked("input", counts.input_tokens, TOKENS_MAX, notes),
        cache_read_tokens=_checked("cache_read", counts.cache_read_tokens, TOKENS_MAX, notes),
        cache_write_tokens=written,
        cache_write_1h_tokens=_checked("cache_write_1h", counts.cache_write_1h_tokens, written, notes),
        output_tokens=output,
        thinking_tokens=_checked("thinking", counts.thinking_tokens, output, notes),
    )
    if notes and source in (Source.UPSTREAM, Source.PARTIAL):
        source = Source.ESTIMATED
    return checked, source, tuple(notes)


def _checked(kind: str, value: object, maximum: int, notes: list[str]) -> int:
    if type(value) is int and 0 <= value <= maximum:
        return value
    if isinstance(value, float) and value.is_integer() and 0 <= value <= maximum:
        return int(value)  # 12.0 is how some JSON writers say 12
    notes.append(f"clamped_{kind}")
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return maximum if value > maximum else max(0, int(value))
