"""How a credential stands, for people: its states as the workers last wrote them, in words."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models.functions import Now
from django.utils import timezone

from keys.credentials import defect_of
from keys.models import Credential, State, StateFields, Upstream, Worker
from keys.secrets import KeyRing
from keys.store import LEASE_S

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

#: So many models that a credential rests for are named in the list.
MODELS_TOLD = 2

DEFECTS = {
    "no_secret": "none since the base URL changed",
    "undecryptable": "no encryption key opens the secret",
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
        return replace(shown, state=defect.replace("_", " "), cause=DEFECTS.get(defect, ""))
    whole = next((s for s in states if not s.model_name), None)
    if whole is not None and (state := state_now(whole)) != State.READY:
        return replace(shown, state=state, cause=CAUSES.get(whole.cause, ""), until=whole.until)
    shown = replace(shown, cause=_of_models(states))
    return replace(shown, state="draining") if credential.draining else shown


def _of_models(states: Iterable[StateFields]) -> str:
    """Say for which models a credential rests that serves others."""
    resting = sorted(
        (s.model_name, s) for s in states if s.model_name and state_now(s) not in (State.READY, "on trial")
    )
    told = [f"{name}: {CAUSES.get(row.cause, row.state)}" for name, row in resting[:MODELS_TOLD]]
    more = [f"{len(resting) - MODELS_TOLD} more"] if len(resting) > MODELS_TOLD else []
    return "; ".join([*told, *more])


#: States of an upstream's credentials, the nearest to serving first, and what the upstream is said to be when none is nearer.
OF_CREDENTIALS = {
    "ready": "ready",
    "on trial": "ready",
    "cooling": "credentials cooling",
    "draining": "credentials draining",
    "ejected": "credentials ejected",
    "quarantined": "credentials quarantined",
    "undecryptable": "credentials undecryptable",
    "no secret": "credentials without secret",
    "disabled": "credentials disabled",
}


def upstream_state(upstream: Upstream, ring: KeyRing) -> str:
    """Say in words whether an upstream can serve, or what is missing; reads its states, its credentials and theirs."""
    if not upstream.enabled:
        return "disabled"
    whole = next((row for row in upstream.states.all() if not row.model_name), None)
    if whole is not None and (state := state_now(whole)) != State.READY:
        return state
    found = {standing(one, one.states.all(), ring).state for one in upstream.credentials.all()}
    return next((words for state, words in OF_CREDENTIALS.items() if state in found), "no credential")


@dataclass(slots=True)
class Use:
    """What all live workers together have sent with a credential."""

    in_flight: int = 0
    #: In the last minute, like the tokens.
    sends: int = 0
    tokens: int = 0


def uses() -> dict[int, Use]:
    """Return the use of each credential that is in use, by its id."""
    total: dict[int, Use] = {}
    alive = Worker.objects.filter(heartbeat_at__gt=Now() - timedelta(seconds=LEASE_S))
    for loads in alive.values_list("loads", flat=True):
        for credential_id, (in_flight, sends, tokens) in loads.items():
            use = total.setdefault(int(credential_id), Use())
            use.in_flight += in_flight
            use.sends += sends
            use.tokens += tokens
    return total


def state_now(row: StateFields) -> str:
    """Return the state in words; one whose rest is over waits for an attempt to prove it."""
    if row.state == State.READY or row.until is None or row.until > timezone.now():
        return str(row.state)
    return "ready" if row.cause == "rate_limit" else "on trial"
