"""What a client reads when a budget has no room for its call."""

from datetime import UTC, datetime

import pytest

from translator.refusals import over_budget
from usage.errors import BudgetHeld, OverBudget, Room

ANEW = datetime(2026, 12, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("refusal", "status", "message"),
    [
        (OverBudget("b", ANEW), 402, "the budget 'b' is spent; it starts anew at 2026-12-02 00:00 UTC"),
        (OverBudget("b", None), 402, "the budget 'b' is spent"),
        (
            OverBudget("b", None, Room(left=1_200_000_000, needed=2_400_000_000)),
            402,
            "the budget 'b' has $1.20 left, and this call may need up to $2.40: a smaller max_tokens needs less",
        ),
        (
            BudgetHeld("b", ANEW, Room(unit="tokens", left=20_000, needed=1500)),
            402,
            "running calls hold what is left of the budget 'b' (20,000 tokens, of which this call may need up to 1,500 tokens); it starts anew at 2026-12-02 00:00 UTC",
        ),
    ],
)
def test_a_budget_without_room_says_what_it_lacks(refusal: OverBudget, status: int, message: str) -> None:
    error = over_budget(refusal)

    assert (error.status, error.message) == (status, message)


def test_only_what_is_held_for_now_is_worth_another_try() -> None:
    held = over_budget(BudgetHeld("b", ANEW, Room(left=2, needed=1)))
    assert held.headers == {"x-should-retry": "true", "retry-after": "2"}
    assert over_budget(OverBudget("b", ANEW)).headers == {"x-should-retry": "false"}
