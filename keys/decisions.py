"""Why this credential? The decision that a usage record keeps, in words.

A decision is made by `keys.pool.board` and stored as JSON:

    {"chosen": 7, "why": "lowest", "terms": {"in_flight": 1.0}, "closest": [[7, 1.0], [9, 1.02]],
     "pool": 12, "passed_over": {"cooling": {"count": 2, "ids": [3, 5]}}}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from keys.models import Credential

REASONS = {
    "lowest": "Its load was the lowest.",
    "by session": "Several were as idle; the new session drew it by its id.",
    "stays": "Its session was served there before, where the prompt cache is warm.",
    "moved": "Its session left a credential that could not serve, or only later.",
    "the only one": "The pool has no other, so it was asked although it rested.",
}
TERMS = {
    "in_flight": "open attempts",
    "sends": "requests of the last minute",
    "tokens": "tokens of the last minute",
    "failures": "recent failures",
    "model_failures": "recent failures with this model",
    "record": "success and speed with this model",
    "priority": "priority",
}
OBSTACLES = {
    "no_secret": "has no secret",
    "undecryptable": "its secret doesn't open",
    "disabled": "disabled",
    "draining": "draining",
    "cooling": "resting",
    "ejected": "ejected after failures",
    "quarantined": "quarantined: wrong secret or no credit",
    "on trial": "on trial with another request",
    "full": "its limits were reached",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A decision for people."""

    chosen: str
    reason: str
    #: What its score was made of.
    terms: list[tuple[str, float]]
    #: All of them together.
    score: float
    #: The best candidates and their scores, the lowest first.
    closest: list[tuple[str, float]]
    #: (why, how many, some of them)
    passed_over: list[tuple[str, int, str]]
    #: Asked before for the same request.
    tried: list[str]
    pool: int


def explain(decision: Mapping[str, Any]) -> Explained:
    """Put a decision into words; credentials that are gone are called by their number."""
    closest = list(decision.get("closest", []))
    tried = list(decision.get("tried", []))
    passed_over: dict[str, Any] = dict(decision.get("passed_over", {}))
    ids = [
        decision["chosen"],
        *tried,
        *(place[0] for place in closest),
        *(i for why in passed_over.values() for i in why["ids"]),
    ]
    labels = {row.pk: str(row) for row in Credential.objects.filter(pk__in=ids)}

    def named(credential_id: int) -> str:
        return labels.get(credential_id, f"credential {credential_id}, since deleted")

    return Explained(
        chosen=named(decision["chosen"]),
        reason=REASONS.get(decision.get("why", ""), ""),
        terms=[(TERMS.get(name, name), value) for name, value in decision.get("terms", {}).items()],
        score=dict(closest).get(decision["chosen"], sum(decision.get("terms", {}).values())),
        closest=[(named(credential_id), score) for credential_id, score in closest],
        passed_over=[
            (OBSTACLES.get(why) or why, int(found["count"]), ", ".join(map(named, found["ids"])))
            for why, found in passed_over.items()
        ],
        tried=[named(credential_id) for credential_id in tried],
        pool=decision.get("pool", 1),
    )


def render_decision(decision: Mapping[str, Any] | None) -> SafeString:
    """Render the part of a page that answers "why this key?"; for records without a decision it says so."""
    return render_to_string("keys/_decision.html", {"explained": explain(decision) if decision else None})
