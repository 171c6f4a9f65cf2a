"""What follows from the outcomes of attempts: states change, in the mirror and so for all workers."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from keys.mirror import Mirror
from keys.pool.health import READY, after_exhaustion, after_failure, after_success
from keys.pool.trial import About, Finding, against_model
from keys.pool.verdicts import Cause, State, Verdict
from keys.store import StateKey, Subject

#: 429s on this many credentials within so many seconds mean that the account or address is limited.
THROTTLE_CREDENTIALS = 3
THROTTLE_S = 10.0
KINDS_MAX = 16


class Conclusions:
    """Counts findings against whom they concern."""

    def __init__(self, mirror: Mirror, *, now: Callable[[], float], jitter: Callable[[], float]) -> None:
        self._mirror = mirror
        self._now = now
        self._jitter = jitter
        #: Kinds of requests that counted since the last success.
        self._kinds: dict[StateKey, deque[str]] = {}
        #: Recent 429s by upstream: when and on which credential.
        self._throttles: dict[int, deque[tuple[float, int]]] = {}

    def count(self, findings: list[Finding], kind: str) -> None:
        """Count failures; `kind` is the same for the same prompt, "" when unknown."""
        for finding in findings:
            self._count_one(finding, kind)

    def restore(self, *, upstream_id: int, credential_id: int, model: str, sent_at: float) -> None:
        """Take a success into account: what was failing or on trial serves again at once."""
        now = self._now()
        for name in ("", model):
            for key in ((Subject.CREDENTIAL, credential_id, name), (Subject.UPSTREAM, upstream_id, name)):
                self._kinds.pop(key, None)
                if (health := self._mirror.health(key)) is not None:
                    self._mirror.put(key, after_success(health, now=now, sent_at=sent_at))
        recent = self._throttles.get(upstream_id)
        if recent and sent_at >= recent[0][0]:
            recent.clear()
        if self._mirror.store is not None:
            self._mirror.store.note_success(credential_id, now)

    def exhaust(self, credential_id: int, seconds: float) -> None:
        """Rest a credential whose last answer said that its allowance is used up."""
        key = (Subject.CREDENTIAL, credential_id, "")
        health = self._mirror.health(key) or READY
        self._mirror.put(key, after_exhaustion(health, seconds, now=self._now(), jitter=self._jitter()))

    def _count_one(self, finding: Finding, kind: str) -> None:
        if finding.verdict.cause is Cause.NO_ACCESS and not finding.is_proven:
            return  # as far as we know nobody has such a model: clients may have made it up
        if finding.verdict.is_quota:
            finding = replace(finding, about=About.CREDENTIAL_MODEL, is_proven=True)
        if self._is_the_models(finding):
            finding = against_model(finding)
        key = _key(finding)
        if not finding.is_proven and self._is_known_kind(key, finding, kind):
            return
        may_rest = finding.verdict.rule.state is not State.EJECTED or self._may_eject(finding)
        self._fail(key, finding.verdict, may_rest=may_rest)
        if finding.verdict.cause is Cause.RATE_LIMIT and not finding.verdict.is_quota:
            self._note_throttle(finding)

    def _fail(self, key: StateKey, verdict: Verdict, *, may_rest: bool = True) -> None:
        health = self._mirror.health(key) or READY
        after = after_failure(health, verdict, now=self._now(), jitter=self._jitter(), may_rest=may_rest)
        self._mirror.put(key, after)

    def _is_the_models(self, finding: Finding) -> bool:
        """Tell whether an unproven failure is more of what several credentials met alike just before."""
        if finding.is_proven or finding.about is not About.CREDENTIAL_MODEL:
            return False
        health = self._mirror.health((Subject.UPSTREAM, finding.upstream_id, finding.model))
        return health is not None and health.failures > 0

    def _is_known_kind(self, key: StateKey, finding: Finding, kind: str) -> bool:
        """Tell whether the same prompt counted already against the same thing; note it otherwise."""
        if not kind or finding.about is About.CREDENTIAL:
            return False
        kinds = self._kinds.setdefault(key, deque(maxlen=KINDS_MAX))
        if kind in kinds:
            return True
        kinds.append(kind)
        return False

    def _may_eject(self, finding: Finding) -> bool:
        """Keep at least half of the pool in use."""
        now = self._now()
        board = self._mirror.board(finding.upstream_id, now)
        return board.ejected(finding.model, now, but=finding.credential_id) + 1 <= board.enabled // 2

    def _note_throttle(self, finding: Finding) -> None:
        now = self._now()
        recent = self._throttles.setdefault(finding.upstream_id, deque())
        recent.append((now, finding.credential_id))
        while recent[0][0] < now - THROTTLE_S:
            recent.popleft()
        if len({credential_id for _, credential_id in recent}) >= THROTTLE_CREDENTIALS:
            recent.clear()
            self._fail((Subject.UPSTREAM, finding.upstream_id, ""), replace(finding.verdict, cause=Cause.THROTTLED))


def _key(finding: Finding) -> StateKey:
    match finding.about:
        case About.CREDENTIAL:
            return Subject.CREDENTIAL, finding.credential_id, ""
        case About.CREDENTIAL_MODEL:
            return Subject.CREDENTIAL, finding.credential_id, finding.model
        case About.UPSTREAM:
            return Subject.UPSTREAM, finding.upstream_id, ""
        case About.UPSTREAM_MODEL:
            return Subject.UPSTREAM, finding.upstream_id, finding.model
