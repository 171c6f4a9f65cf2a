"""A client's messages, and what is sent of them to a model that they don't fit.

`translator.core.compaction` decides; here its decisions are kept while a call is made, since each attempt may go to
another upstream model, which has rules of its own.
"""

from collections.abc import Callable, Mapping, Sequence

from keys.entries import ModelEntry
from translator.core.anthropic.request import MessagesRequest
from translator.core.calibration import Place
from translator.core.compaction.plan import Compacted, Plan, plan
from translator.core.compaction.rules import Rules
from translator.core.compaction.summaries import Summary

#: What the client is told of a compaction, and, as the value `off`, how it asks for none.
HEADER = "bridge-compaction"
#: Where a member reads the summary that was made of a conversation, by the request that wrote it.
RECEIPTS = "/v1/summaries/"

#: Tools, calls and results that are told in words take more room than is estimated for them; mostly less than this.
TOLD_TOOLS = 1.1


class LongHistory:
    """The messages of one call.

    Args:
        estimate: Tokens of the whole request.
        may_compact: Whether the client lets its messages be compacted.
    """

    def __init__(self, request: MessagesRequest, *, estimate: int, may_compact: bool) -> None:
        self.request = request
        self.whole = estimate
        #: Tokens that are expected to be sent.
        self.estimate = estimate
        #: Gives the factor that an upstream model's limits are held still with.
        self.steady: Callable[[Place, float], float] = lambda _, factor: factor
        self._may_compact = may_compact
        self._summaries: tuple[Summary, ...] = ()
        self._plans: dict[tuple[Rules, float], Plan] = {}

    def rules_for(self, model: ModelEntry | None, factor: float) -> tuple[Rules, float] | None:
        """Return by which rules the messages are compacted for a model, and the factor; None, mostly, when they aren't.

        Args:
            model: What is known of the model.
            factor: What its own counts have been to our estimates.
        """
        if model is None or model.compaction == "off" or not self._may_compact:
            return None
        factor = self.steady((model.upstream_id, model.name), factor) * (TOLD_TOOLS if model.tools == "emulated" else 1)
        rules = rules_of(model)
        return (rules, factor) if rules and rules.is_over(self.whole, factor) else None

    def plan(self, model: ModelEntry | None, factor: float) -> Plan | None:
        """Return what is to be sent to a model, with the summaries that are known by now; None for all as it is."""
        key = self.rules_for(model, factor)
        if key is None:
            return None
        if key not in self._plans:
            rules, held = key
            self._plans[key] = plan(self.request, rules, factor=held, summaries=self._summaries)
        return self._plans[key]

    def use(self, summaries: Sequence[Summary]) -> None:
        """Take the summaries that are known now, in place of those that were."""
        self._summaries = tuple(summaries)
        self._plans.clear()

    def expect(self, plan: Plan | None) -> None:
        """Count with what a plan sends."""
        self.estimate = plan.compacted.after if plan and plan.compacted else self.whole


def rules_of(model: ModelEntry) -> Rules | None:
    """Return the operator's rules for a model; None when its messages are never compacted."""
    if model.context_window is None or model.compaction == "off":
        return None
    return Rules(
        mode="summary" if model.compaction == "summary" else "trim",
        window=model.context_window,
        above_percent=model.compact_above,
        to_percent=model.compact_to,
    )


def headers_of(compacted: Compacted) -> Mapping[str, str]:
    """Tell the client what became of its messages."""
    told = [compacted.how, *(f"{name}={count}" for name, count in _counts(compacted))]
    if compacted.summary:
        told.append(f"receipt={RECEIPTS}{compacted.summary.request_id}")
    return {HEADER: "; ".join(told)}


def notes_of(compacted: Compacted) -> tuple[str, ...]:
    """Say the same on the usage record."""
    by = (f"compaction_by_{compacted.summary.request_id}",) if compacted.summary else ()
    counts = (f"compaction_{name}_{count}" for name, count in _counts(compacted))
    return (f"compaction_{compacted.how}", *counts, *by)


def _counts(compacted: Compacted) -> list[tuple[str, int]]:
    counts = {"covered": compacted.left_out, "clipped": compacted.clipped, "saved": compacted.saved}
    return [(name, count) for name, count in counts.items() if count]
