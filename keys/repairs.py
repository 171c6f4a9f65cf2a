"""How the calls of models without tool calls of their own fare. The records are not this app's to read.

The project hands in who counts, at start (`use`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

ANSWERS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """Of a model's last answers (`ANSWERS_MAX` at most), what was wrong with calls found in the text."""

    #: Answers to requests whose tools were told in words.
    answers: int
    #: Of those, the ones with a repair.
    repaired: int
    #: By what was wrong, in words; the most frequent first.
    by_kind: Mapping[str, int]


#: By the upstream's id and the upstream model's name.
type CountRepairs = Callable[[int, str], Repairs]

_count: CountRepairs | None = None


def use(count: CountRepairs) -> None:
    """Hand in who counts."""
    global _count
    _count = count


def repairs_of(upstream_id: int, model_name: str) -> Repairs | None:
    """Count for one upstream model; None when nobody was handed in."""
    return _count(upstream_id, model_name) if _count else None
