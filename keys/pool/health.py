"""The state of one thing that can fail, and how outcomes move it."""

from dataclasses import dataclass, replace

from keys.pool.verdicts import ANNOUNCED_MAX_S, ANNOUNCING, RULES, Cause, Growth, Recovery, Rule, State, Verdict

#: An announced rest is lengthened by up to this share, an own one too, so that not all wake at once.
JITTER_SHARE = 0.1


#: What attempts that were under way tell of something that rests already never makes it look better than it is.
GRAVITY = (State.READY, State.COOLING, State.EJECTED, State.QUARANTINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is known of a credential, of a model on it, of an upstream, or of a model on that."""

    state: State = State.READY
    #: When the rest ends; None for none.
    until: float | None = None
    cause: Cause | None = None
    #: Failures since the last success.
    failures: int = 0
    #: Rests since the last success.
    rests: int = 0
    last_success_at: float | None = None
    last_failure_at: float | None = None
    changed_at: float = 0.0

    def is_resting(self, now: float) -> bool:
        """Tell whether nothing may be sent now."""
        return self.until is not None and now < self.until

    def needs_probe(self, now: float) -> bool:
        """Tell whether one attempt alone may be sent, to see if it works again."""
        return self.state is not State.READY and not self.is_resting(now) and self._recovery() is Recovery.PROBE

    def _recovery(self) -> Recovery:
        return RULES[self.cause].recovery if self.cause else Recovery.TIME


READY = Health()


def after_failure(health: Health, verdict: Verdict, *, now: float, jitter: float, may_rest: bool = True) -> Health:
    """Return the state after a failure.

    Args:
        may_rest: False keeps it in use whatever the count, so that a pool never loses its last half.
    """
    rule = verdict.rule
    failures = health.failures + 1 if _is_of_a_kind(health, rule) else 1
    failed = replace(health, cause=verdict.cause, failures=failures, last_failure_at=now, changed_at=now)
    if rule.state is None or not may_rest:
        return failed
    stretch = 1 + jitter * JITTER_SHARE
    is_failed_probe = health.state is not State.READY and not health.is_resting(now)
    if failures < rule.failures and not is_failed_probe:
        return _resting(failed, State.COOLING, rule.rest_before_s * stretch, now, health)
    # Attempts that were under way when the rest began don't make it longer, unless the upstream says so.
    rests = health.rests if health.is_resting(now) and health.rests else health.rests + 1
    announced_s = _announced_s(verdict)
    rest_s = own_rest_s(rule, rests - 1) if announced_s is None else announced_s
    return _resting(replace(failed, rests=rests), rule.state, rest_s * stretch, now, health)


def after_success(health: Health, *, now: float, sent_at: float) -> Health:
    """Return the state after a success; one that was sent before the last failure proves nothing."""
    if health.last_failure_at is not None and sent_at < health.last_failure_at:
        return replace(health, last_success_at=now)
    if health.state is State.READY and health.failures == 0:
        return replace(health, last_success_at=now)
    return Health(last_success_at=now, last_failure_at=health.last_failure_at, changed_at=now)


def after_exhaustion(health: Health, seconds: float, *, now: float, jitter: float) -> Health:
    """Return the state after a good answer whose headers say that the allowance is used up."""
    rest_s = min(seconds, RULES[Cause.RATE_LIMIT].rest_max_s) * (1 + jitter * JITTER_SHARE)
    fresh = replace(health, cause=Cause.RATE_LIMIT, changed_at=now)
    return _resting(fresh, State.COOLING, rest_s, now, health)


def _is_of_a_kind(health: Health, rule: Rule) -> bool:
    """Tell whether the earlier failures count together with one of this rule."""
    return health.cause is not None and RULES[health.cause].state is rule.state


def own_rest_s(rule: Rule, rests: int) -> float:
    """Return how long to rest when there were `rests` rests since the last success."""
    factor = float(rests + 1) if rule.growth is Growth.LINEAR else 2.0 ** min(rests, 32)
    return min(rule.rest_s * factor, rule.rest_max_s)


def _announced_s(verdict: Verdict) -> float | None:
    if verdict.cause not in ANNOUNCING:
        return None
    seconds = verdict.announced.wait_s
    # Only a rate limit is about the one credential and may hold it back for long.
    most = ANNOUNCED_MAX_S if verdict.cause is Cause.RATE_LIMIT else verdict.rule.rest_max_s
    return None if seconds is None else min(seconds, most)


def _resting(health: Health, state: State, rest_s: float, now: float, before: Health) -> Health:
    """Rest from now on; a longer rest that was there already stays, and so does a graver reason for it."""
    if rest_s <= 0:
        return health
    until = max(now + rest_s, before.until or 0.0)
    if before.is_resting(now) and GRAVITY.index(before.state) > GRAVITY.index(state):
        return replace(before, until=until, last_failure_at=health.last_failure_at, changed_at=now)
    return replace(health, state=state, until=until)
