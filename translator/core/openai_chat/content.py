"""The content of an answer: text, reasoning and tool calls, in the order in which they may be written."""

from collections.abc import Callable
from typing import Any

from translator.core.answer import AnswerContext
from translator.core.block_writer import BlockWriter
from translator.core.emulation.answer import EmulatedCalls
from translator.core.events import Event, MessageDelta, MessageStop, StopReason, Usage
from translator.core.openai_chat.finish import Finish, decide_stop, refusal_details
from translator.core.openai_chat.parts import split_content
from translator.core.openai_chat.reasoning import ReasoningState, reasoning_text
from translator.core.openai_chat.stop_sequences import StopCutter
from translator.core.openai_chat.think_tags import ThinkTags
from translator.core.openai_chat.tool_calls import MALFORMED, ToolCalls
from translator.core.openai_chat.trail import Trail
from translator.core.openai_chat.usage import estimate_output
from translator.core.switches import Profile

__all__ = ["Content"]

#: Characters an upstream may send after a stop sequence, before it is taken not to know it and is left.
STOP_GRACE = 200
IMAGE_OMITTED = "[image returned by model omitted]"


class Content:
    """Read deltas, and write what they add."""

    def __init__(self, answer: AnswerContext, *, profile: Profile, new_id: Callable[[str], str]) -> None:
        """Start before the first delta; the arguments are the decoder's."""
        self._answer = answer
        self._reasoning = ReasoningState(keep_text=answer.omit_thinking_text)
        self._blocks = BlockWriter(sign=self._reasoning.sign, omit_thinking_text=answer.omit_thinking_text)
        self.tool_calls = ToolCalls(self._blocks, answer, new_id)
        self._emulated = _emulated_calls(self._blocks, answer, new_id) if answer.emulated_tools else None
        self._has_tags = profile.think_tags
        self._tags = ThinkTags() if profile.think_tags else None
        self._cutter = StopCutter(answer.stop_sequences) if answer.stop_sequences else None
        self._trail = Trail() if answer.continue_rounds else None
        self._is_plain = (self._tags or self._cutter or self._emulated or self._trail) is None
        self._shows_thinking = answer.show_thinking
        #: Characters of earlier rounds; and what was noted in them.
        self._earlier = 0
        self._noted: frozenset[str] = frozenset()
        self._fired: str | None = None
        self._characters = 0
        self._refusals: list[str] = []
        self._has_content = False
        self._notes: list[str] = []
        #: Text (False) and thinking (True) that came while a tool call was being written.
        self._waiting: list[tuple[bool, str]] = []

    @property
    def has_output(self) -> bool:
        """Whether the model has said anything that a client would show or run, though it may still be held.

        Of a follow-up, whether it has said anything at all.
        """
        if self._earlier:
            return self._heard > self._earlier
        return self._blocks.has_output or (self._emulated is not None and self._emulated.has_heard)

    @property
    def is_cut(self) -> bool:
        """Whether a stop sequence was found here."""
        return self._cutter is not None and self._cutter.fired is not None

    @property
    def must_end(self) -> bool:
        """Whether the upstream writes on after a stop sequence, or broke what cannot be mended."""
        dropped = (self._cutter.dropped if self._cutter else 0) + (self._emulated.dropped if self._emulated else 0)
        return self._is_broken or dropped > STOP_GRACE

    @property
    def has_cut_call(self) -> bool:
        """Whether a call was left incomplete, since the upstream ran out of tokens, or failed to go on with it."""
        if self._earlier and self._is_broken:
            return True
        return self.tool_calls.is_cut or (self._emulated is not None and self._emulated.is_cut)

    @property
    def _is_broken(self) -> bool:
        return self.tool_calls.is_broken or (self._emulated is not None and self._emulated.is_broken)

    @property
    def _is_busy(self) -> bool:
        """Whether a call is being written, so that nothing else can be."""
        return self.tool_calls.is_busy or (self._emulated is not None and self._emulated.is_busy)

    @property
    def _calls(self) -> int:
        return self.tool_calls.count + (self._emulated.count if self._emulated else 0)

    @property
    def output_estimate(self) -> int:
        """Output tokens so far, by our own count."""
        return estimate_output(self._heard - self._earlier)

    @property
    def _heard(self) -> int:
        return self._characters + self.tool_calls.characters

    @property
    def text(self) -> str:
        """What the model has written so far, calls in its text included, for a follow-up."""
        return self._trail.text if self._trail else ""

    @property
    def has_grown(self) -> bool:
        """Whether a follow-up has added anything."""
        return self.tool_calls.has_any or (self._trail is not None and self._trail.has_grown)

    @property
    def can_go_on(self) -> bool:
        """Whether a follow-up could go on where this round ended: in text, or in a call in it, that has grown."""
        if self._trail is None or self.is_cut or self._is_broken or self.tool_calls.has_any or self._refusals:
            return False
        return self._trail.has_grown and not self._blocks.is_thinking and not self._trail.text.isspace()

    @property
    def notes(self) -> list[str]:
        """What was repaired or dropped in this round."""
        notes = self._all_notes
        return [note for note in notes if note not in self._noted] if self._noted else notes

    @property
    def _all_notes(self) -> list[str]:
        emulated = self._emulated.notes if self._emulated else []
        return [*self.tool_calls.notes, *emulated, *self._notes]

    def read(self, delta: dict[str, Any], events: list[Event]) -> None:
        """Write what a delta, or a whole message, adds to `events`."""
        self._blocks.events = events
        content = delta.get("content")
        if len(delta) == 1 and content:
            self._read_content(content)
            return
        if thinking := reasoning_text(delta):
            self._think(thinking)
        if "reasoning_details" in delta:
            self._keep_details(delta["reasoning_details"])
        if content:
            self._read_content(content)
        self._read_rest(delta, has_content=bool(content))

    def _read_content(self, content: Any) -> None:
        if type(content) is str:
            self._has_content = True
            self._text(content)
        elif isinstance(content, list | dict):
            for kind, text in split_content(content if isinstance(content, list) else [content]):
                if kind == "thinking":
                    self._think(text)
                else:
                    self._read_content(text)

    def _read_rest(self, delta: dict[str, Any], *, has_content: bool) -> None:
        match delta.get("refusal"):
            case str(refusal) if refusal:
                self._refusals.append(refusal)
                self._text(refusal)
        match delta.get("audio"):
            case {"transcript": str(transcript)} if not has_content:
                self._read_content(transcript)
        if "reasoning_items" in delta:
            self._keep_items(delta["reasoning_items"])
        if delta.get("images"):
            self._text(IMAGE_OMITTED)
        calls = delta.get("tool_calls")
        if calls and isinstance(calls, list | dict):
            self._call(calls if isinstance(calls, list) else [calls])
        elif isinstance(call := delta.get("function_call"), dict):
            self._call([{"index": -1, "function": call}])

    def _text(self, text: str) -> None:
        self._characters += len(text)
        if self._is_plain and not self._waiting and not self.tool_calls.is_busy:
            self._blocks.text(text)
            return
        if self._tags is None:
            self._cut(text)
            return
        thinking, text = self._tags.feed(text)
        if thinking:
            self._show(thinking)
        self._cut(text)

    def _cut(self, text: str) -> None:
        if self._trail is not None:
            text = self._trail.feed(text)
        self._write_uncut(text)

    def _write_uncut(self, text: str) -> None:
        self._write(is_thinking=False, text=self._cutter.feed(text) if self._cutter else text)

    def _think(self, thinking: str) -> None:
        self._characters += len(thinking)
        self._show(thinking)

    def _show(self, thinking: str) -> None:
        if self._shows_thinking:
            self._reasoning.add_text(thinking)
            self._write(is_thinking=True, text=thinking)

    def _keep_details(self, details: Any) -> None:
        if self._shows_thinking and self._reasoning.add_details(details) and not self._is_busy:
            self._blocks.open_thinking()

    def _keep_items(self, items: Any) -> None:
        """Keep a Responses upstream's reasoning; each item ends a block of its own."""
        if self._shows_thinking and self._reasoning.add_items(items) and not self._is_busy:
            self._blocks.open_thinking()
            self._blocks.close()

    def _write(self, *, is_thinking: bool, text: str) -> None:
        if not text:
            return
        self.tool_calls.release()
        if self.tool_calls.is_busy or (is_thinking and self._is_busy):
            self._waiting.append((is_thinking, text))
        elif is_thinking:
            self._blocks.thinking(text)
        elif self._emulated is not None:
            self._emulated.feed(text)
            self._write_waiting()
        else:
            self._blocks.text(text)

    def _call(self, calls: list[Any]) -> None:
        if self.is_cut:
            return
        self.flush(self._blocks.events)
        if self._emulated is not None:
            self._emulated.finish(is_truncated=False)
        self.tool_calls.feed(calls)
        self._write_waiting()

    def _write_waiting(self) -> None:
        if self._waiting and not self._is_busy:
            waiting, self._waiting = self._waiting, []
            for is_thinking, text in waiting:
                self._write(is_thinking=is_thinking, text=text)

    def note_stop(self, matched: Any) -> None:
        """Remember the stop sequence that the upstream says has fired."""
        if isinstance(matched, str) and matched in self._answer.stop_sequences:
            self._fired = matched

    def pause(self, events: list[Event]) -> None:
        """Write what a follow-up can't complete; a stop sequence and a call in the text may be held on."""
        self._blocks.events = events
        if self._tags is not None:
            thinking, text = self._tags.flush()
            if thinking:
                self._show(thinking)
            if text:
                self._cut(text)
        if self._trail is not None and (held := self._trail.flush()):
            self._write_uncut(held)

    def resume(self) -> None:
        """Begin a follow-up. Thinking in it is about going on, and stands in the middle of an answer: it isn't shown."""
        assert self._trail is not None  # noqa: S101  (else there is no follow-up)
        self._trail.resume()
        self._tags = ThinkTags() if self._has_tags else None
        self._shows_thinking = False
        self._earlier = self._heard
        self._noted = frozenset(self._all_notes)

    def flush(self, events: list[Event]) -> None:
        """Write the text that was held back: it became neither tag nor stop sequence."""
        self.pause(events)
        if self._cutter is not None and (held := self._cutter.flush()):
            self._write(is_thinking=False, text=held)

    def finish(self, events: list[Event], *, is_truncated: bool) -> str | None:
        """Write what waits and close the last block; return what went wrong, or None: not after what was good.

        Args:
            events: Where to write.
            is_truncated: Whether the upstream ran out of tokens.
        """
        self.flush(events)
        if self._emulated is not None:
            self._emulated.finish(is_truncated=is_truncated or self.is_cut)
        self.tool_calls.finish(is_truncated=is_truncated)
        if self._is_broken and not self._earlier:
            return MALFORMED
        if self._answer.must_call and not self._calls and not is_truncated:
            self._notes.append("tool_choice_ignored")
        self._write_waiting()
        if self._reasoning.is_pending:
            self._blocks.open_thinking()
        self._blocks.close()
        return None

    def end(self, finish: Finish | None, usage: Usage) -> list[Event]:
        """Return the events after the last block."""
        has_refused = bool(self._refusals) and not self._has_content
        cut = self._cutter.fired if self._cutter else None
        stop = decide_stop(
            finish,
            has_calls=self._calls > 0,
            is_refusal=has_refused,
            fired=cut or self._fired,
            is_cut_here=cut is not None,
        )
        is_sequence, is_refusal = stop is StopReason.STOP_SEQUENCE, stop is StopReason.REFUSAL
        return [
            MessageDelta(
                stop_reason=stop,
                stop_sequence=(cut or self._fired) if is_sequence else None,
                stop_details=refusal_details("".join(self._refusals) or None) if is_refusal else None,
                usage=usage,
            ),
            MessageStop(),
        ]


def _emulated_calls(blocks: BlockWriter, answer: AnswerContext, new_id: Callable[[str], str]) -> EmulatedCalls:
    return EmulatedCalls(blocks, answer.emulated_tools, new_id, is_parallel=answer.parallel_tools)
