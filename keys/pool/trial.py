"""What the attempts of one request say together.

A request that fails alike on two credentials says nothing against either: it is the request, or the model behind
them. So the first such failure is held back until the request is over, and counts against its credential only if
another one did better, or none was asked.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from keys.pool.verdicts import SHAREABLE, Cause, Scope, Verdict


class About(Enum):
    """Whom a finding is about."""

    CREDENTIAL = auto()
    CREDENTIAL_MODEL = auto()
    UPSTREAM = auto()
    UPSTREAM_MODEL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A failure to count, and against whom."""

    about: About
    credential_id: int
    upstream_id: int
    model: str
    verdict: Verdict
    #: Proven by another credential that served the same request; else it counts once per kind of request.
    is_proven: bool


SCOPES: dict[Scope, About] = {
    Scope.CREDENTIAL: About.CREDENTIAL,
    Scope.CREDENTIAL_MODEL: About.CREDENTIAL_MODEL,
    Scope.UPSTREAM: About.UPSTREAM,
    Scope.UPSTREAM_MODEL: About.UPSTREAM_MODEL,
}


@dataclass(slots=True)
class Trial:
    """Collects the verdicts of one request's attempts."""

    held: Finding | None = None
    is_shared: bool = False
    #: Attempts under way.
    open: int = 0
    #: No further attempt will be made.
    is_last: bool = False

    def note(self, *, credential_id: int, upstream_id: int, model: str, verdict: Verdict) -> list[Finding]:
        """Take the verdict on one attempt; return what is to be counted now."""
        if verdict.cause is Cause.OK:
            return self._release(is_proven=True)
        if verdict.rule.scope is Scope.REQUEST:
            return []
        finding = Finding(
            about=SCOPES[verdict.rule.scope],
            credential_id=credential_id,
            upstream_id=upstream_id,
            model=model,
            verdict=verdict,
            is_proven=False,
        )
        if verdict.cause not in SHAREABLE:
            return [finding]
        return self._hold(finding)

    def close(self) -> list[Finding]:
        """Return what remains to be counted when the request is over."""
        return self._release(is_proven=False)

    def _hold(self, finding: Finding) -> list[Finding]:
        held, self.held = self.held, None
        if held is None and not self.is_shared:
            self.held = finding
            return []
        if held is not None and (held.upstream_id, held.model) != (finding.upstream_id, finding.model):
            # Another model failed as well: each stands for itself.
            self.held = finding
            return [held]
        self.is_shared = True
        # That two credentials don't know a model is no reason to rest it.
        return [] if finding.verdict.cause is Cause.NO_ACCESS else [against_model(finding)]

    def _release(self, *, is_proven: bool) -> list[Finding]:
        held, self.held = self.held, None
        if held is None:
            return []
        return [replace(held, is_proven=is_proven)]


def against_model(finding: Finding) -> Finding:
    """Return the finding as one about the upstream's model, whatever the credential."""
    verdict = replace(finding.verdict, cause=Cause.UPSTREAM_ERROR)
    return replace(finding, about=About.UPSTREAM_MODEL, verdict=verdict)
