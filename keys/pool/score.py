"""What a credential's load, failures and record weigh.

The unit is one open attempt of a plain credential.
"""

from dataclasses import dataclass, field

from keys.entries import CredentialEntry
from keys.pool.health import READY, Health
from keys.pool.load import ALONE, Crew, Load
from keys.pool.verdicts import State

#: A lower priority serves only where no higher one can.
PRIORITY_STEP = 1000.0
#: What a limit that is used up to the brim weighs.
LIMIT_WEIGHT = 4.0
#: A send in the last minute, where no limit says how many are many.
SEND_WEIGHT = 0.02
#: A failure since the last success, for so many seconds: then it is time to see whether it was a chance.
FAILURE_WEIGHT = 2.0
FAILURE_MEMORY_S = 10.0
#: The worst record with a model weighs this much, the best nothing.
RECORD_WEIGHT = 0.75
#: TTFT at which a record earns nothing for speed.
SLOW_TTFT_S = 30.0
#: How fast a record forgets: the share of the newest outcome.
RECORD_RATE = 0.1

HealthKey = tuple[int, str]


@dataclass(slots=True)
class Record:
    """How a credential did with one model lately; the benefit of the doubt goes to one without a record."""

    success: float = 1.0
    ttft_s: float = 0.0

    def note(self, *, is_ok: bool, ttft_ms: int | None) -> None:
        self.success += RECORD_RATE * (is_ok - self.success)
        if ttft_ms is not None:
            self.ttft_s += RECORD_RATE * (min(ttft_ms / 1000, SLOW_TTFT_S) - self.ttft_s)

    def score(self) -> float:
        """Return 0 for the worst record and 1 for the best."""
        return 0.6 * self.success + 0.4 * (1 - self.ttft_s / SLOW_TTFT_S)


@dataclass(slots=True)
class Shared:
    """What all boards of a worker know together: by credential, or by credential and model ("" for all)."""

    loads: dict[int, Load] = field(default_factory=dict)
    healths: dict[HealthKey, Health] = field(default_factory=dict)
    records: dict[HealthKey, Record] = field(default_factory=dict)
    #: Trial attempts under way.
    probes: set[HealthKey] = field(default_factory=set)

    #: The workers these are shared with.
    crew: Crew = ALONE
    #: Whether requests and tokens per minute are counted for all workers together, and asked about before each send.
    is_counted_elsewhere: bool = False

    def load(self, credential_id: int) -> Load:
        known = self.loads.get(credential_id)
        if known is None:
            known = self.loads[credential_id] = Load()
        return known

    def health(self, credential_id: int, model: str = "") -> Health:
        return self.healths.get((credential_id, model), READY)


def base_terms(entry: CredentialEntry, shared: Shared, now: float) -> dict[str, float]:
    """Return the parts of a credential's score that hold for every model."""
    load = shared.load(entry.id)
    return {
        "in_flight": (load.in_flight + load.others_in_flight) / entry.weight,
        "sends": _used(load.sends + load.others_sends, entry.rpm, entry.weight),
        "tokens": LIMIT_WEIGHT * max(0, load.tokens + load.others_tokens) / entry.tpm if entry.tpm else 0.0,
        "failures": _failing(shared.health(entry.id), now),
        "priority": PRIORITY_STEP * entry.priority,
    }


def model_terms(entry: CredentialEntry, model: str, shared: Shared, now: float) -> dict[str, float]:
    """Return the parts that a model adds: its own failures, and its record."""
    record = shared.records.get((entry.id, model))
    return {
        "model_failures": _failing(shared.health(entry.id, model), now),
        "record": RECORD_WEIGHT * (1 - record.score()) if record else 0.0,
    }


def _failing(health: Health, now: float) -> float:
    """Weigh failures that led to no rest; who rested as it should begins anew."""
    if health.state is not State.READY or health.last_failure_at is None:
        return 0.0
    return FAILURE_WEIGHT * health.failures if now < health.last_failure_at + FAILURE_MEMORY_S else 0.0


def _used(sends: int, rpm: int | None, weight: int) -> float:
    if rpm:
        return LIMIT_WEIGHT * sends / rpm
    return SEND_WEIGHT * sends / weight
