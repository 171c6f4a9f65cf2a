"""The same some hundred inputs with each run; others, for ten minutes, by hand: `uv run python -m tests.fuzz`."""

from random import Random

import pytest

from tests.fuzz.__main__ import fuzz, try_one
from tests.fuzz.mutation import dice_of, mutated
from tests.fuzz.targets import TARGETS

INPUTS = 400


@pytest.mark.parametrize("target", TARGETS)
def test_nearly_right_input_does_no_harm(target: str) -> None:
    assert fuzz(1, [target], inputs=INPUTS) == INPUTS


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_known_passes(target: str) -> None:
    for data in TARGETS[target][1]:
        try_one(target, data, 0)


def test_a_run_can_be_repeated() -> None:
    seeds = TARGETS["decode_chat"][1]

    assert mutated(seeds, dice_of(7)) == mutated(seeds, dice_of(7)) != mutated(seeds, dice_of(8))


def test_a_harmful_input_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def harmful(data: bytes, dice: Random) -> None:
        raise ValueError(data)

    monkeypatch.setitem(TARGETS, "harmful", (harmful, [b"x"]))  # type: ignore[arg-type]

    with pytest.raises(AssertionError, match="harmful failed on b'x'"):
        try_one("harmful", b"x", 0)
