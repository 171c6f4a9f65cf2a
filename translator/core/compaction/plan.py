"""What is to become of a long history.

1. Below the limit: nothing, as it is.
2. Large tool results are clipped; nothing more happens where that is enough.
3. `trim`: old messages are left out, so many that the rest stays within the target.
4. `summary`: the same, with a summary in their place once one is written. Until then the request goes as it is while it
   fits, else trimmed, behind the last summary if there is one.

Everything follows from the messages alone, and adding some at the end changes nothing of the beginning until the limit
is reached again: so each worker cuts at the same place, and the upstream finds the same prefix in its cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from translator.core.anthropic.request import MessagesRequest
from translator.core.compaction.clipping import clip_results
from translator.core.compaction.fingerprints import prefix_fingerprints
from translator.core.compaction.measured import Measured, measure, with_messages
from translator.core.compaction.rules import Limits, Rules
from translator.core.compaction.summaries import Summary, Wanted, newest_fitting, summary_note, trim_note
from translator.core.estimate import estimate_input_tokens, text_tokens

__all__ = ["Compacted", "Plan", "plan"]

#: Tokens of the words around a summary or in place of what is left out, at most.
NOTE_TOKENS = 120

type How = Literal["clip", "trim", "summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A request that was made smaller, and what it cost."""

    request: MessagesRequest
    how: How
    #: Messages that are left out, with a summary in their place or none.
    left_out: int
    #: Tool results that lost their middle.
    clipped: int
    #: Tokens before and after, estimated.
    before: int
    after: int
    #: The summary in it, if there is one.
    summary: Summary | None = None

    @property
    def saved(self) -> int:
        return self.before - self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to send now, and what to have written."""

    #: None sends the request as it is.
    compacted: Compacted | None = None
    #: The next summary; None when none is needed.
    wanted: Wanted | None = None
    #: Whether it is worth waiting for: without it, messages are lost.
    is_urgent: bool = False


def plan(request: MessagesRequest, rules: Rules, *, factor: float, summaries: Sequence[Summary] = ()) -> Plan:
    """Decide on a request.

    Args:
        request: The client's request; it is not changed.
        rules: What the operator says of the upstream model.
        factor: What the model's own counts have been to our estimates.
        summaries: Those that are known of the conversation; ones that don't fit are not used.
    """
    limits = rules.limits(factor)
    whole = measure(request)
    if whole.whole() <= limits.above:
        return Plan()
    messages, clips = clip_results(request.messages, limits.clip)
    history = measure(request, messages) if clips else whole
    large = _Large(whole=whole, history=history, limits=limits, clips=clips)
    if clips and history.whole() <= limits.above:
        return Plan(compacted=large.clipped())
    return large.trimmed_plan() if rules.mode == "trim" else large.summary_plan(summaries)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Large:
    """A history that is too large even with its tool results clipped."""

    #: As the client sent it, and with its results clipped.
    whole: Measured
    history: Measured
    limits: Limits
    clips: int

    def trimmed_plan(self) -> Plan:
        return Plan(compacted=self.trimmed(None))

    def summary_plan(self, summaries: Sequence[Summary]) -> Plan:
        # What is covered is told by the messages as the client sent them.
        known = newest_fitting(self.whole.messages, self.history.places, summaries)
        if known is None:
            fits = self.history.whole() <= self.limits.hurry
            as_it_is = None if self.whole.whole() <= self.limits.hurry else self.clipped()
            return Plan(
                compacted=as_it_is if fits else self.trimmed(None), wanted=self.wanted(None), is_urgent=not fits
            )
        size = self._summed_size(known)
        if size <= self.limits.above:
            return Plan(compacted=self.summed(known))
        fits = size <= self.limits.hurry
        compacted = self.summed(known) if fits else self.trimmed(known)
        return Plan(compacted=compacted, wanted=self.wanted(known), is_urgent=not fits)

    def clipped(self) -> Compacted | None:
        """Return the request with its results clipped and all its messages; None when there was nothing to clip."""
        if not self.clips:
            return None
        return self._made(with_messages(self.history.request, self.history.messages), "clip", 0)

    def summed(self, summary: Summary) -> Compacted:
        """Return the request with a summary in place of what it covers."""
        cut = summary.covered
        note = summary_note(summary, self.history.head + 1)
        return self._made(self.history.cut_at(cut, note), "summary", self.history.left_out(cut), summary)

    def trimmed(self, summary: Summary | None) -> Compacted | None:
        """Return the request without old messages, those that a summary covers among them; as it is where it can't be cut.

        The cut goes on by leaps: it stays where it is until the rest has grown to the limit, and then goes so far that
        the rest is within the target. Where it stands now is found by going through the conversation as it grew.
        """
        start = summary.covered if summary else 0
        extra = NOTE_TOKENS + (text_tokens(summary.text) if summary else 0.0)
        cut = start
        for end in self._turns(start):
            size = self.history.size(cut, end) + extra if cut else self.history.whole(end)
            if size > self.limits.above:
                cut = self.history.first_fitting(self.limits.to - extra, after=cut, end=end) or cut
        if not cut:
            return self.clipped()
        first = self.history.head + 1
        if summary is None:
            note = trim_note(first, cut)
        elif cut == start:
            note = summary_note(summary, first)
        else:
            note = f"{summary_note(summary, first)}\n{trim_note(start + 1, cut)}"
        how: How = "trim" if cut > start else "summary"
        return self._made(self.history.cut_at(cut, note), how, self.history.left_out(cut), summary)

    def wanted(self, base: Summary | None) -> Wanted | None:
        """Return the summary that would bring the request down to the target; None when it can't be cut further."""
        after = base.covered if base else 0
        cut = self.history.first_fitting(self.limits.to - NOTE_TOKENS - self.limits.summary, after=after)
        if cut is None:
            return None
        fingerprint = prefix_fingerprints(self.whole.messages, [cut])[cut]
        return Wanted(covered=cut, fingerprint=fingerprint, base=base)

    def _summed_size(self, summary: Summary) -> float:
        return self.history.size(summary.covered) + text_tokens(summary.text) + NOTE_TOKENS

    def _turns(self, start: int) -> list[int]:
        """Return after how many messages the client asked: each time that it wasn't the assistant's word that was last."""
        roles = [message["role"] for message in self.history.messages]
        ends = [index + 1 for index, role in enumerate(roles) if index >= start and role == "user"]
        return list(dict.fromkeys((*ends, len(roles))))

    def _made(self, request: MessagesRequest, how: How, left_out: int, summary: Summary | None = None) -> Compacted:
        return Compacted(
            request=request,
            how=how,
            left_out=left_out,
            clipped=self.clips,
            before=estimate_input_tokens(self.whole.request),
            after=estimate_input_tokens(request),
            summary=summary,
        )
