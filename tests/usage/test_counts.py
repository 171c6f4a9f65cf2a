from typing import Any

import pytest

from usage.counts import TOKENS_MAX, Counts, check_counts
from usage.states import Source

FINE = {
    "input_tokens": 100,
    "cache_read_tokens": 50,
    "cache_write_tokens": 5,
    "cache_write_1h_tokens": 3,
    "output_tokens": 20,
    "thinking_tokens": 8,
}

#: What an upstream said, what is stored of it, and which counts are flagged. The client allowed 1,000 tokens.
SHAPES: list[tuple[dict[str, Any], dict[str, int], tuple[str, ...]]] = [
    ({}, {}, ()),
    ({"input_tokens": -1}, {"input_tokens": 0}, ("clamped_input",)),
    (
        {"output_tokens": -(10**30), "thinking_tokens": 0},
        {"output_tokens": 0, "thinking_tokens": 0},
        ("clamped_output",),
    ),
    ({"output_tokens": 10_000}, {"output_tokens": 10_000}, ()),
    ({"output_tokens": 10_001}, {"output_tokens": 10_000}, ("clamped_output",)),
    ({"input_tokens": 10**8}, {"input_tokens": 10**8}, ()),
    ({"input_tokens": 10**8 + 1}, {"input_tokens": TOKENS_MAX}, ("clamped_input",)),
    ({"cache_read_tokens": 2**63}, {"cache_read_tokens": TOKENS_MAX}, ("clamped_cache_read",)),
    ({"cache_write_tokens": 10**400}, {"cache_write_tokens": TOKENS_MAX}, ("clamped_cache_write",)),
    ({"cache_write_1h_tokens": 6}, {"cache_write_1h_tokens": 5}, ("clamped_cache_write_1h",)),
    ({"input_tokens": "100"}, {"input_tokens": 0}, ("clamped_input",)),
    ({"input_tokens": None}, {"input_tokens": 0}, ("clamped_input",)),
    ({"input_tokens": True}, {"input_tokens": 0}, ("clamped_input",)),
    ({"input_tokens": [100]}, {"input_tokens": 0}, ("clamped_input",)),
    ({"input_tokens": {"total": 100}}, {"input_tokens": 0}, ("clamped_input",)),
    ({"input_tokens": 12.0}, {"input_tokens": 12}, ()),
    ({"input_tokens": 12.5}, {"input_tokens": 12}, ("clamped_input",)),
    ({"input_tokens": float("nan")}, {"input_tokens": 0}, ("clamped_input",)),
    ({"input_tokens": float("inf")}, {"input_tokens": TOKENS_MAX}, ("clamped_input",)),
    ({"thinking_tokens": 21}, {"thinking_tokens": 20}, ("clamped_thinking",)),
    ({"output_tokens": "x"}, {"output_tokens": 0, "thinking_tokens": 0}, ("clamped_output", "clamped_thinking")),
]


@pytest.mark.parametrize(("said", "stored", "flags"), SHAPES)
def test_absurd_usage_is_cut_and_flagged(said: dict[str, Any], stored: dict[str, int], flags: tuple[str, ...]) -> None:
    counts, source, notes = check_counts(Counts(**FINE | said), Source.UPSTREAM, max_tokens=1000)

    assert counts == Counts(**FINE | stored)
    assert notes == flags
    assert source == (Source.ESTIMATED if flags else Source.UPSTREAM)


@pytest.mark.parametrize("max_tokens", [None, 0, -5])
def test_without_a_limit_of_the_client_only_the_general_one_holds(max_tokens: int | None) -> None:
    counts, _, notes = check_counts(Counts(output_tokens=10**7), Source.UPSTREAM, max_tokens=max_tokens)

    assert (counts.output_tokens, notes) == (10**7, ())


def test_an_unknown_source_stays_unknown() -> None:
    _, source, _ = check_counts(Counts(input_tokens=-1), Source.UNKNOWN, max_tokens=None)

    assert source == Source.UNKNOWN
