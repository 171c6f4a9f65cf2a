"""What an attempt's outcome says, and about whom: one literal table.

docs/pool.md shows the same table; scripts/render_pool writes it from here.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from keys.pool.facts import Announced, Kind, Outcome, read_announced


class State(StrEnum):
    """Whether something may be used."""

    READY = "ready"
    #: Resting for a time that was announced or is short.
    COOLING = "cooling"
    #: Failed too often; comes back by one trial attempt.
    EJECTED = "ejected"
    #: Somebody should look: a wrong secret or no credit. Also tried again, seldom.
    QUARANTINED = "quarantined"


class Cause(StrEnum):
    """Why an attempt ended as it did."""

    OK = "ok"
    CLIENT_GONE = "client_gone"
    CLIENT_FAULT = "client_fault"
    FULL = "full"
    WRONG_KEY = "wrong_key"
    NO_ACCESS = "no_access"
    NO_CREDIT = "no_credit"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    BAD_ANSWER = "bad_answer"
    SLOW = "slow"
    NETWORK = "network"
    #: Found by comparing attempts: several credentials failed alike.
    UPSTREAM_ERROR = "upstream_error"
    #: Found by comparing attempts: 429s on several credentials at once.
    THROTTLED = "throttled"


class Scope(StrEnum):
    """Whom a cause is about."""

    REQUEST = "request"
    CREDENTIAL = "credential"
    CREDENTIAL_MODEL = "credential and model"
    UPSTREAM_MODEL = "upstream's model"
    UPSTREAM = "upstream"


class Next(StrEnum):
    """What to do for the client, as long as no byte went out."""

    RETURN = "answer the client"
    CREDENTIAL = "another credential"
    FALLBACK = "another model"


class Growth(StrEnum):
    """How a rest grows with each one since the last success."""

    DOUBLE = "doubles"
    LINEAR = "adds up"


class Recovery(StrEnum):
    """How something comes back after its rest."""

    TIME = "at once"
    PROBE = "by one attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What follows from a cause."""

    scope: Scope
    next_step: Next
    #: None when nobody has to rest.
    state: State | None = None
    #: Failures in a row until the state is entered.
    failures: int = 1
    #: A short rest for each failure before that.
    rest_before_s: float = 0
    rest_s: float = 0
    rest_max_s: float = 0
    growth: Growth = Growth.DOUBLE
    recovery: Recovery = Recovery.PROBE
    #: Self-limiting failovers don't count against the retry budget.
    is_free: bool = False


#: A rest that the upstream announced is kept to the second, up to this.
ANNOUNCED_MAX_S = 3600.0

RULES: dict[Cause, Rule] = {
    Cause.OK: Rule(scope=Scope.CREDENTIAL_MODEL, next_step=Next.RETURN),
    Cause.CLIENT_GONE: Rule(scope=Scope.REQUEST, next_step=Next.RETURN),
    Cause.CLIENT_FAULT: Rule(scope=Scope.REQUEST, next_step=Next.RETURN),
    Cause.FULL: Rule(scope=Scope.REQUEST, next_step=Next.CREDENTIAL, is_free=True),
    Cause.WRONG_KEY: Rule(
        scope=Scope.CREDENTIAL,
        next_step=Next.CREDENTIAL,
        state=State.QUARANTINED,
        failures=2,
        rest_before_s=5,
        rest_s=3600,
        rest_max_s=86_400,
        is_free=True,
    ),
    Cause.NO_ACCESS: Rule(
        scope=Scope.CREDENTIAL_MODEL,
        next_step=Next.CREDENTIAL,
        state=State.EJECTED,
        rest_s=3600,
        rest_max_s=86_400,
        is_free=True,
    ),
    Cause.NO_CREDIT: Rule(
        scope=Scope.CREDENTIAL,
        next_step=Next.CREDENTIAL,
        state=State.QUARANTINED,
        rest_s=1800,
        rest_max_s=86_400,
        is_free=True,
    ),
    Cause.RATE_LIMIT: Rule(
        scope=Scope.CREDENTIAL,
        next_step=Next.CREDENTIAL,
        state=State.COOLING,
        rest_s=1,
        rest_max_s=60,
        recovery=Recovery.TIME,
    ),
    Cause.OVERLOADED: Rule(
        scope=Scope.UPSTREAM_MODEL,
        next_step=Next.CREDENTIAL,
        state=State.COOLING,
        failures=5,
        rest_s=5,
        rest_max_s=30,
    ),
    Cause.SERVER_ERROR: Rule(
        scope=Scope.CREDENTIAL_MODEL,
        next_step=Next.CREDENTIAL,
        state=State.EJECTED,
        failures=5,
        rest_s=30,
        rest_max_s=300,
        growth=Growth.LINEAR,
    ),
    Cause.BAD_ANSWER: Rule(
        scope=Scope.CREDENTIAL_MODEL,
        next_step=Next.CREDENTIAL,
        state=State.EJECTED,
        failures=5,
        rest_s=30,
        rest_max_s=300,
        growth=Growth.LINEAR,
    ),
    Cause.SLOW: Rule(
        scope=Scope.CREDENTIAL_MODEL,
        next_step=Next.FALLBACK,
        state=State.EJECTED,
        failures=5,
        rest_s=30,
        rest_max_s=300,
        growth=Growth.LINEAR,
    ),
    Cause.NETWORK: Rule(
        scope=Scope.UPSTREAM,
        next_step=Next.CREDENTIAL,
        state=State.COOLING,
        failures=5,
        rest_s=5,
        rest_max_s=30,
    ),
    Cause.UPSTREAM_ERROR: Rule(
        scope=Scope.UPSTREAM_MODEL,
        next_step=Next.CREDENTIAL,
        state=State.COOLING,
        failures=5,
        rest_s=5,
        rest_max_s=30,
    ),
    Cause.THROTTLED: Rule(scope=Scope.UPSTREAM, next_step=Next.FALLBACK, state=State.COOLING, rest_s=5, rest_max_s=60),
}

#: What several credentials meet alike says something about the model or the request, not about them.
SHAREABLE = frozenset({Cause.NO_ACCESS, Cause.SERVER_ERROR, Cause.BAD_ANSWER, Cause.SLOW})
#: Causes whose rest the upstream may announce itself.
ANNOUNCING = frozenset({Cause.RATE_LIMIT, Cause.OVERLOADED, Cause.THROTTLED})

TEXT_CHARS_MAX = 2000
#: Words in an upstream's error, asked in this order, and only for these statuses (200: an error in a good answer).
WORDS: tuple[tuple[frozenset[int], re.Pattern[str], Cause], ...] = tuple(
    (frozenset(statuses), re.compile(words, re.IGNORECASE), cause)
    for statuses, words, cause in (
        (
            (200, 400, 402, 403, 429),
            r"insufficient.?(quota|balance|credit|funds)|credit balance|out of credits?|payment required",
            Cause.NO_CREDIT,
        ),
        (
            (200, 400),
            r"(invalid|incorrect|expired|revoked).{0,20}api.?key|api.?key.{0,20}(not valid|invalid|expired)",
            Cause.WRONG_KEY,
        ),
        (
            (200, 400, 401, 403, 404),
            r"model_not_found|model.{0,80}(not exist|not found)|(no such|unknown|invalid) model",
            Cause.NO_ACCESS,
        ),
        (
            (200, 401, 403, 404),
            r"model.{0,80}(not have access|no access|not allowed|permission)|(access|permission).{0,40}\bmodel\b",
            Cause.NO_ACCESS,
        ),
        ((403,), r"moderation|flagged|content.policy|safety", Cause.CLIENT_FAULT),
        (
            (200, 429, 500, 503),
            # Full workers are the upstream's matter; "resource exhausted" alone is how others say rate limit.
            r"overloaded|at capacity|no (available|free) (workers|capacity)|resource.?exhausted.{0,60}worker",
            Cause.OVERLOADED,
        ),
        ((200, 500), r"rate.?limit|too many requests|resource.?exhausted", Cause.RATE_LIMIT),
    )
)
STATUSES: dict[int, Cause] = {
    401: Cause.WRONG_KEY,
    402: Cause.NO_CREDIT,
    403: Cause.WRONG_KEY,
    408: Cause.SLOW,
    425: Cause.SERVER_ERROR,
    429: Cause.RATE_LIMIT,
    503: Cause.OVERLOADED,
    504: Cause.SLOW,
    529: Cause.OVERLOADED,
}
KINDS: dict[Kind, Cause] = {
    Kind.OK: Cause.OK,
    Kind.TRUNCATED: Cause.BAD_ANSWER,
    Kind.NETWORK: Cause.NETWORK,
    Kind.REFUSED: Cause.NETWORK,
    Kind.TIMEOUT: Cause.SLOW,
    Kind.CLIENT_GONE: Cause.CLIENT_GONE,
    Kind.FULL: Cause.FULL,
}


NOTHING_ANNOUNCED = Announced()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an outcome means."""

    cause: Cause
    announced: Announced = NOTHING_ANNOUNCED

    @property
    def rule(self) -> Rule:
        return RULES[self.cause]

    @property
    def is_quota(self) -> bool:
        """Whether a rate limit lasts longer than a minute's: a quota, which nearly all upstreams count by model."""
        wait_s = self.announced.wait_s
        return self.cause is Cause.RATE_LIMIT and wait_s is not None and wait_s > self.rule.rest_max_s


def judge(outcome: Outcome, *, now: float) -> Verdict:
    """Say what an outcome means, from its kind, status, headers and words."""
    announced = read_announced(outcome.headers, outcome.error_text[:TEXT_CHARS_MAX], now=now)
    cause = KINDS.get(outcome.kind)
    if cause is None:
        cause = _cause_of_answer(outcome)
    return Verdict(cause=cause, announced=announced)


def _cause_of_answer(outcome: Outcome) -> Cause:
    # An error inside a good answer has no status but the one that its reader made of it.
    status = 200 if outcome.kind is Kind.BAD_ANSWER else outcome.status or 200
    text = outcome.error_text[:TEXT_CHARS_MAX]
    for statuses, words, cause in WORDS:
        if status in statuses and words.search(text):
            return cause
    status = outcome.status or 200
    if status in STATUSES:
        return STATUSES[status]
    if 400 <= status < 500:
        return Cause.CLIENT_FAULT
    return Cause.SERVER_ERROR if status >= 500 else Cause.BAD_ANSWER
