"""Whom to try for a request, one after the other, until nothing is left to do.

This is the only place in Bridge where anything is tried again.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from keys.entries import Target
from keys.pool.board import Choice, Saturated
from keys.pool.budget import RetryBudget
from keys.pool.verdicts import Cause, Next, Verdict

CREDENTIALS_PER_TARGET = 2
#: All targets of a route together.
ATTEMPTS_MAX = 6


class Reason(StrEnum):
    """Why the pool refuses a request."""

    #: All that could serve are resting or full.
    SATURATED = "saturated"
    #: The same, because of rate limits.
    RATE_LIMITED = "rate_limited"
    #: No credential can serve until somebody looks after them.
    NO_CREDENTIAL = "no_credential"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What to tell the client when the pool, not the upstream, has the last word."""

    reason: Reason
    #: The earliest time it is worth coming back; None when nobody knows.
    retry_after_s: float | None

    @property
    def status(self) -> int:
        """The HTTP status in the Messages API's terms."""
        return {Reason.SATURATED: 529, Reason.RATE_LIMITED: 429, Reason.NO_CREDENTIAL: 503}[self.reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An attempt to make."""

    target: Target
    choice: Choice
    #: 1 for the first of the request.
    number: int


#: What the choice depends on: the target and the credentials tried already.
Choose = Callable[[Target, Collection[int]], Choice | Saturated]

#: After these it is of more use to the client when the pool can serve again than what the upstream said.
OURS = frozenset({Cause.WRONG_KEY, Cause.NO_CREDIT, Cause.RATE_LIMIT})


@dataclass(slots=True)
class Progress:
    """How far a request has come."""

    tried: int = 0
    last: Verdict | None = None
    until: float | None = None
    is_rate_limited: bool = False

    @property
    def costs_retry(self) -> bool:
        """Whether one more attempt is a retry to pay for."""
        return self.tried > 0 if self.last is None else not self.last.rule.is_free

    @property
    def is_alone(self) -> bool:
        """Whether one credential was asked, and there is none to wait for."""
        return self.tried == 1 and self.last is not None and self.until is None

    def refused(self, saturated: Saturated) -> None:
        if saturated.until is not None and (self.until is None or saturated.until < self.until):
            self.until = saturated.until
            self.is_rate_limited = saturated.is_rate_limited


def failover(
    targets: Sequence[Target],
    choose: Choose,
    *,
    budget: RetryBudget,
    now: Callable[[], float],
    only_one: Callable[[Target], Choice | None] = lambda _: None,
    waited_after: int | None = None,
) -> Generator[Proposal, Verdict, Refusal | None]:
    """Yield whom to try; be sent the verdict; end when nothing is left to do.

    Args:
        waited_after: How many attempts the request made before it waited for its turn; None when it is new. Waiting
            earns nothing: what was sent once is sent again at the cost of a retry.
        only_one: Gives the credential of a pool that has no other, resting or not. When nobody can serve, it is
            asked all the same: its upstream's own words serve the client better than our refusal.

    Returns:
        None when the last attempt's outcome is the answer, else what to tell the client instead.
    """
    progress = Progress(tried=waited_after or 0)
    if waited_after is None:
        budget.earn()
    for target in targets:
        step = yield from _try_target(target, choose, progress, budget)
        if step is Next.RETURN:
            return None
        if progress.tried >= ATTEMPTS_MAX:
            break
    if progress.tried == 0 and (last_resort := _last_resort(targets, only_one)) is not None:
        yield last_resort
        return None
    if progress.is_alone and _last_resort(targets, only_one) is not None:
        return None
    return _refusal(progress, now())


def _last_resort(targets: Sequence[Target], only_one: Callable[[Target], Choice | None]) -> Proposal | None:
    for target in targets:
        if (choice := only_one(target)) is not None:
            return Proposal(target=target, choice=choice, number=1)
    return None


def _try_target(
    target: Target, choose: Choose, progress: Progress, budget: RetryBudget
) -> Generator[Proposal, Verdict, Next]:
    """Try up to two credentials of one target; return what to do then."""
    excluded: set[int] = set()
    is_paid = False
    while len(excluded) < CREDENTIALS_PER_TARGET:
        choice = choose(target, excluded)
        if isinstance(choice, Saturated):
            progress.refused(choice)
            return Next.FALLBACK
        if progress.costs_retry and not is_paid and not budget.spend():
            return Next.FALLBACK
        is_paid = True
        verdict = yield Proposal(target=target, choice=choice, number=progress.tried + 1)
        if verdict.cause is Cause.FULL:
            continue  # nothing was sent, and it won't be chosen again before it has room
        is_paid = False
        progress.tried += 1
        excluded.add(choice.credential.id)
        progress.last = verdict
        if verdict.rule.next_step is not Next.CREDENTIAL:
            return verdict.rule.next_step
    return Next.FALLBACK


def _refusal(progress: Progress, now: float) -> Refusal | None:
    """Say what to tell the client; None when the last outcome says it best."""
    last = progress.last
    if last is not None and last.cause not in OURS:
        return None
    wait_s = None if progress.until is None else max(progress.until - now, 0.0)
    if last is not None and last.cause is Cause.RATE_LIMIT:
        announced = last.announced.retry_after_s
        return Refusal(reason=Reason.RATE_LIMITED, retry_after_s=_sooner(wait_s, announced))
    if wait_s is None:
        if last is not None:
            return None
        # Who was tried before the wait and may not be tried again now was not short of credentials.
        return Refusal(reason=Reason.SATURATED if progress.tried else Reason.NO_CREDENTIAL, retry_after_s=None)
    reason = Reason.RATE_LIMITED if progress.is_rate_limited else Reason.SATURATED
    return Refusal(reason=reason, retry_after_s=wait_s)


def _sooner(left: float | None, right: float | None) -> float | None:
    return min((each for each in (left, right) if each is not None), default=None)
