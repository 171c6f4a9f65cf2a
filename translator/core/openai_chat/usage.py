"""Usage as chat/completions upstreams report it, to the Messages API's counts.

An upstream's `prompt_tokens` include what the cache served; the Messages API's `input_tokens` do not. Numbers come
from outside and set bills, so each is checked: what cannot be true is replaced by our own count, and noted.

Sources: https://platform.openai.com/docs/api-reference/chat/object, https://api-docs.deepseek.com/guides/kv_cache,
https://openrouter.ai/docs/use-cases/usage-accounting (all read 2026-11-30).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from translator.core.events import Usage, UsageSource

__all__ = [
    "OTHER_TIERS",
    "SERVICE_TIER",
    "Report",
    "estimate_output",
    "merge_reports",
    "read_report",
    "settle_usage",
    "token_count",
]

#: No model takes or makes as many tokens in one call.
MAX_TOKENS = 10**8
#: How far output may exceed `max_tokens`: some upstreams do not count thinking within it.
MAX_OVERRUN = 10
CHARACTERS_PER_TOKEN = 4
#: What a request was served as where it has another price than the one that stands in lists.
OTHER_TIERS = ("flex", "priority", "batch")
SERVICE_TIER = "service_tier"

#: Where each count may stand, best place first.
PLACES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "input": (("prompt_tokens",), ("input_tokens",)),
    "output": (("completion_tokens",), ("output_tokens",)),
    "total": (("total_tokens",),),
    "cache_read": (
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
        ("cache_read_input_tokens",),
    ),
    "cache_write": (
        ("prompt_tokens_details", "cache_write_tokens"),
        ("prompt_tokens_details", "cache_creation_tokens"),
        ("input_tokens_details", "cache_write_tokens"),
        ("cache_creation_input_tokens",),
    ),
    # As gateways in front of Claude write them: LiteLLM, new-api, and the Messages API's own form.
    "cache_write_1h": (
        ("prompt_tokens_details", "cache_creation_token_details", "ephemeral_1h_input_tokens"),
        ("claude_cache_creation_1_h_tokens",),
        ("cache_creation", "ephemeral_1h_input_tokens"),
    ),
    "thinking": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Counts as the upstream gave them; None where it gave none."""

    input: int | None = None
    output: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    thinking: int | None = None
    notes: tuple[str, ...] = ()


def read_report(usage: Mapping[str, Any]) -> Report:
    """Return the counts in a `usage` object, whatever its dialect; nonsense counts as absent and is noted."""
    notes: list[str] = []
    counts = {name: _first_count(usage, PLACES[name], notes) for name in PLACES}
    return Report(**counts, notes=tuple(dict.fromkeys(notes)))


def merge_reports(before: Report | None, after: Report) -> Report:
    """Return the later of two reports of one answer: counts are running totals, and none is taken back to nothing."""
    if before is None:
        return after
    kept = {name: getattr(after, name) or getattr(before, name) for name in PLACES}
    shrinks = any((getattr(after, name) or 0) < (getattr(before, name) or 0) for name in ("input", "output"))
    notes = (*before.notes, *after.notes, *(("usage_decreased",) if shrinks else ()))
    return Report(**kept, notes=tuple(dict.fromkeys(notes)))


def settle_usage(
    report: Report | None, *, input_estimate: int, output_estimate: int, max_tokens: int | None, is_complete: bool
) -> Usage:
    """Return the usage of an answer.

    Args:
        report: The upstream's last word, or None.
        input_estimate: Our own count of the input.
        output_estimate: Our own count of what has come so far.
        max_tokens: The client's limit of output tokens, or None.
        is_complete: Whether the answer has ended; before that an upstream's count of the output may lag.
    """
    if report is None:
        return Usage(input_tokens=input_estimate, output_tokens=output_estimate, source=UsageSource.ESTIMATED, notes=())
    is_cached_sane, report = _with_cache_within_input(report)
    cache_read, cache_write = report.cache_read or 0, report.cache_write or 0
    input_, output = _input_tokens(report), _output_tokens(report)
    notes = report.notes
    if output is not None and _is_absurd(output, output_estimate, max_tokens):
        output, notes = None, tuple(dict.fromkeys([*notes, "usage_absurd"]))
    is_whole = is_complete and is_cached_sane and input_ is not None and output is not None
    if not is_complete:
        output = max(output or 0, output_estimate)
    return Usage(
        input_tokens=max(0, input_estimate - cache_read - cache_write) if input_ is None else input_,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        cache_write_1h_tokens=min(cache_write, report.cache_write_1h or 0),
        output_tokens=output_estimate if output is None else output,
        thinking_tokens=report.thinking,
        source=UsageSource.UPSTREAM if is_whole else UsageSource.PARTIAL,
        notes=notes,
    )


def estimate_output(characters: int) -> int:
    """Return about how many tokens so many characters are; at least one if there are any."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def _first_count(usage: Mapping[str, Any], places: tuple[tuple[str, ...], ...], notes: list[str]) -> int | None:
    for place in places:
        value: Any = usage
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None and (tokens := token_count(value, notes)) is not None:
            return tokens
    return None


def token_count(value: Any, notes: list[str]) -> int | None:
    """Return a count of tokens; None, and a note, for what can be none."""
    try:
        count = int(float(value)) if isinstance(value, str | float) else value
    except (ValueError, OverflowError):
        count = None
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MAX_TOKENS:
        return count
    notes.append("usage_absurd")
    return None


def _is_absurd(output: int, output_estimate: int, max_tokens: int | None) -> bool:
    """Tell whether the client's limit, or what was sent, rules out a count of the output."""
    if output == 0:
        return output_estimate > 0
    return output > (max_tokens or MAX_TOKENS) * MAX_OVERRUN


def _input_tokens(report: Report) -> int | None:
    """Return the input that no cache served; None when the upstream did not count it: no input is empty."""
    if not report.input:
        return None
    cached = (report.cache_read or 0) + (report.cache_write or 0)
    return report.input if _counts_cache_apart(report) else max(0, report.input - cached)


def _with_cache_within_input(report: Report) -> tuple[bool, Report]:
    """Cut cached tokens down to the input that they are part of; also tell whether there was nothing to cut."""
    read, written = report.cache_read or 0, report.cache_write or 0
    if not report.input or read + written <= report.input or _counts_cache_apart(report):
        return True, report
    read = min(read, report.input)
    notes = tuple(dict.fromkeys([*report.notes, "usage_absurd"]))
    return False, replace(report, cache_read=read, cache_write=min(written, report.input - read), notes=notes)


def _output_tokens(report: Report) -> int | None:
    """Return the output, with the thinking that some upstreams leave out of it but not out of the total."""
    if not report.input or report.total is None or _counts_cache_apart(report):
        return report.output
    rest = report.total - report.input
    return rest if rest > (report.output or 0) else report.output


def _counts_cache_apart(report: Report) -> bool:
    """Tell by the total, or by more cached tokens than input, whether the input leaves out what the cache served."""
    cached, input_ = (report.cache_read or 0) + (report.cache_write or 0), report.input or 0
    if report.total is None:
        return 0 < input_ < cached
    return cached > 0 and report.total == input_ + cached + (report.output or 0)
