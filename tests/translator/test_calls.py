"""How much an answer may hold, for what its budget keeps free."""

from dataclasses import replace

import pytest

from keys.entries import ModelEntry, Target
from tests.keys.pools import target
from translator.calls import most_output


def makes(most: int | None) -> Target:
    facts = {"id": 1, "upstream_id": 1, "name": "m", "context_window": None, "tools": "native"}
    model = ModelEntry(**facts, max_output_tokens=most, vision=None, pdf=None, reasoning=None)  # type: ignore[arg-type]
    return replace(target(), model=model)


@pytest.mark.parametrize(
    ("targets", "most"),
    [
        ([makes(8000)], 8000),
        ([makes(8000), makes(64_000)], 64_000),
        ([makes(8000), makes(None)], 999_999_999),
        ([target()], 999_999_999),
        ([], 999_999_999),
    ],
)
def test_a_budget_keeps_free_no_more_than_a_model_can_make(targets: list[Target], most: int) -> None:
    assert most_output(999_999_999, targets) == most
    assert most_output(100, targets) == 100
