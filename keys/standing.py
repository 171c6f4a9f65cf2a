"""How a credential stands, for people: its states as the workers last wrote them, in words."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils import timezone

from keys.credentials import defect_of
from keys.models import Credential, State, StateFields
from keys.secrets import KeyRing

CAUSES = {
    "wrong_key": "the upstream doesn't accept the secret",
    "no_access": "the secret has no access to the model",
    "no_credit": "no credit left",
    "rate_limit": "rate limit",
    "overloaded": "the model is overloaded",
    "server_error": "errors of the upstream",
    "bad_answer": "answers that make no sense",
    "slow": "no answer in time",
    "network": "no connection",
    "upstream_error": "errors, whatever the credential",
    "throttled": "rate limit of the whole account",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What to show of a credential."""

    #: disabled, no secret, undecryptable, draining, ready, cooling, ejected, quarantined or on trial
    state: str
    cause: str = ""
    until: datetime | None = None
    last_success_at: datetime | None = None
    last_failure_at: datetime | None = None


def standing(credential: Credential, states: Iterable[StateFields], ring: KeyRing) -> Standing:
    """Sum up a credential; `states` are its own, for all models and for single ones."""
    states = list(states)
    shown = Standing(
        state="ready",
        last_success_at=max((s.last_success_at for s in states if s.last_success_at), default=None),
        last_failure_at=max((s.last_failure_at for s in states if s.last_failure_at), default=None),
    )
    if not credential.enabled:
        return replace(shown, state="disabled")
    if defect := defect_of(credential, ring):
        return replace(shown, state=defect.replace("_", " "))
    whole = next((s for s in states if not s.model_name), None)
    if whole is not None and whole.state != State.READY:
        return replace(shown, state=state_now(whole), cause=CAUSES.get(whole.cause, ""), until=whole.until)
    return replace(shown, state="draining") if credential.draining else shown


def state_now(row: StateFields) -> str:
    """Return the state in words; one whose rest is over waits for an attempt to prove it."""
    if row.state == State.READY or row.until is None or row.until > timezone.now():
        return str(row.state)
    return "ready" if row.cause == "rate_limit" else "on trial"
