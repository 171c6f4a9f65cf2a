"""Tool calls in the text of a model that has none of its own: text in, text and calls out.

Prose passes as it comes. Where a call may begin, as little is held back as decides it: a mark that models use for calls, a
code fence with JSON, JSON at the beginning of a line; never in the middle of a code fence or of inline code. Once a tool that
was offered is named, the call is told as it is written. What turns out to be no call is text, as if nothing had been held.

A fence with a call, after words, may be an example in an explanation: it is a call unless the explanation goes on.
"""

from translator.core.emulation.calls import Calls, Part, Piece, State, Tools
from translator.core.emulation.prose import Prose, Sight
from translator.core.emulation.region import Form, Region
from translator.core.emulation.source import Source

__all__ = ["Detector"]


class Detector:
    """Read the text of one answer."""

    def __init__(self, tools: Tools) -> None:
        """Start before the first character."""
        self.calls = Calls(tools)
        #: Set once arguments broke after a part of them was told: nothing more is told.
        self.is_broken = False
        #: Characters that were dropped, since the model went on with results of its own making.
        self.dropped = 0
        self._source = Source()
        self._prose = Prose()
        self._region: Region | None = None
        self._is_over = False
        self._pieces: list[Piece] = []
        #: Characters to come that were read before: no call begins in them.
        self._blind = 0

    @property
    def is_busy(self) -> bool:
        """Whether a call is being read, or text is held that may become one."""
        return self._region is not None or not self._source.is_read

    def feed(self, text: str) -> list[Piece]:
        """Return what `text` adds."""
        if self._is_over:
            self.dropped += len(text)
        if self._is_over or self.is_broken:
            return []
        self._source.add(text)
        self._read()
        return self._take()

    def finish(self, *, is_truncated: bool) -> list[Piece]:
        """Return what the end of the text makes of what is held.

        Args:
            is_truncated: Whether the upstream ran out of tokens; the last call may then stay incomplete.
        """
        self._source.is_last = True
        self._read()
        while self._region is not None and not self.is_broken:
            self._region.end(is_truncated=is_truncated)
            self._leave(self._region)
            self._read()
        self._source.is_last = False
        return self._take()

    def _read(self) -> None:
        while not (self._is_over or self.is_broken):
            if self._region is None:
                self._read_text()
            if self._region is None:
                return
            self._region.read()
            if self._region.state is State.READING:
                return
            self._leave(self._region)

    def _read_text(self) -> None:
        """Read text up to where a call may begin, and tell it."""
        source = self._source
        end, sight = self._prose.read(
            source.text,
            source.at,
            blind_to=source.at + self._blind,
            has_calls=self.calls.count > 0,
            is_last=source.is_last,
        )
        if text := source.text[source.at : end]:
            self._pieces.append((Part.TEXT, text))
        self._blind = max(0, self._blind - len(text))
        source.at = end
        if isinstance(sight, Form):
            is_example = sight is Form.FENCE and self._prose.has_words
            self._region = Region(source, self.calls, sight, is_example=is_example)
        elif sight is Sight.INVENTED:
            self.calls.note("tool_response_invented")
            self._is_over = True
            self.dropped = len(source.text) - end
            source.at = len(source.text)

    def _leave(self, region: Region) -> None:
        self._region = None
        is_call = region.state is State.DONE
        self._source.call.is_pinned = False
        if region.state is State.REJECTED or (region.is_example and not is_call):
            self._go_back(region)
            return
        self.is_broken = not is_call
        self._prose.resume()
        self._source.call.stop()
        self._source.input.stop()
        self._tell_calls()

    def _go_back(self, region: Region) -> None:
        """Take for text what seemed to be a call; calls before it stay calls."""
        # At least the character that it began with is text.
        self._blind = max(1, self._source.go_back())
        if region.is_example:
            self.calls.forget(region.begun_at)
        elif region.form is Form.MARK:
            self.calls.note("tool_call_rejected")
        self._tell_calls()

    def _tell_calls(self) -> None:
        self._pieces += self.calls.pieces
        self.calls.pieces.clear()

    def _take(self) -> list[Piece]:
        if self._region is not None and not self._region.is_example:
            self._tell_calls()
        pieces, self._pieces = self._pieces, []
        return pieces
