"""Whether a model serves Claude Code, from the verdicts of all checks.

* not usable: a check failed that Claude Code needs
* usable, with limits: such a check passed partly, or one failed that Claude Code uses
* ready: otherwise
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from translator.core.model_checks.checks import CHECKS, Check, Need
from translator.core.model_checks.judges import Verdict

__all__ = ["Conclusion", "Readiness", "conclude"]


class Readiness(StrEnum):
    READY = "ready for Claude Code"
    LIMITED = "usable, with limits"
    UNUSABLE = "not usable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    readiness: Readiness
    #: The checks that make it so, in order.
    because: Sequence[Check]


def conclude(verdicts: Mapping[str, Verdict]) -> Conclusion:
    """Return whether Claude Code can be used, and what stands against it.

    Args:
        verdicts: By the checks' names; a check without one counts as failed.
    """
    rated = [(check, verdicts.get(check.name, Verdict.FAILED)) for check in CHECKS]
    broken = [check for check, verdict in rated if check.need is Need.NEEDED and verdict is Verdict.FAILED]
    if broken:
        return Conclusion(readiness=Readiness.UNUSABLE, because=broken)
    limits = [check for check, verdict in rated if verdict in LIMITING.get(check.need, ())]
    return Conclusion(readiness=Readiness.LIMITED if limits else Readiness.READY, because=limits)


#: The verdicts that limit what Claude Code can do.
LIMITING: Mapping[Need, tuple[Verdict, ...]] = {Need.NEEDED: (Verdict.PARTLY,), Need.USED: (Verdict.FAILED,)}
