"""The text of an answer with calls in it, to blocks."""

from collections.abc import Callable, Mapping
from typing import Any

from translator.core.block_writer import BlockWriter
from translator.core.emulation.calls import Part, Piece, Tools
from translator.core.emulation.detector import Detector

__all__ = ["EmulatedCalls"]


class EmulatedCalls:
    """Write text and calls as they are found."""

    def __init__(
        self,
        blocks: BlockWriter,
        schemas: Mapping[str, Mapping[str, Any]],
        new_id: Callable[[str], str],
        *,
        is_parallel: bool,
    ) -> None:
        """Start before the first character.

        Args:
            blocks: Where the blocks go.
            schemas: Schemas of the tools that may be called, by name.
            new_id: Gives a unique id with the prefix it is called with.
            is_parallel: Whether more than one call may come back.
        """
        #: Calls that were written.
        self.count = 0
        #: Whether the model has said anything, written or held.
        self.has_heard = False
        self._blocks = blocks
        self._detector = Detector(Tools(schemas))
        self._new_id = new_id
        self._is_parallel = is_parallel
        self._is_dropping = False
        self._notes: list[str] = []

    @property
    def is_busy(self) -> bool:
        """Whether text is held or a call is being written, so that nothing else can be."""
        return self._detector.is_busy

    @property
    def is_broken(self) -> bool:
        """Whether arguments broke after a part of them was sent: the answer cannot be completed."""
        return self._detector.is_broken

    @property
    def is_cut(self) -> bool:
        """Whether a call was left incomplete, since the upstream ran out of tokens."""
        return self._detector.calls.is_cut

    @property
    def dropped(self) -> int:
        """Characters that were dropped at the end, since nobody asked for them."""
        return self._detector.dropped

    @property
    def notes(self) -> list[str]:
        """What was repaired or dropped, as short codes."""
        return sorted((*self._detector.calls.notes, *self._notes))

    def feed(self, text: str) -> None:
        """Write what `text` adds."""
        self.has_heard = self.has_heard or not text.isspace()
        self._write(self._detector.feed(text))

    def finish(self, *, is_truncated: bool) -> None:
        """Write what the end of the text makes of what is held.

        Args:
            is_truncated: Whether the upstream ran out of tokens; the last call may then stay incomplete.
        """
        self._write(self._detector.finish(is_truncated=is_truncated))

    def _write(self, pieces: list[Piece]) -> None:
        for part, text in pieces:
            match part:
                case Part.TEXT:
                    self._blocks.text(text)
                case Part.CALL:
                    self._open(text)
                case Part.INPUT if not self._is_dropping:
                    self._blocks.input_json(text)
                case Part.STOP if not self._is_dropping:
                    self._blocks.close()
                case _:
                    pass

    def _open(self, name: str) -> None:
        self._is_dropping = self.count > 0 and not self._is_parallel
        if self._is_dropping:
            self._notes = ["parallel_tool_dropped"]
            return
        self.count += 1
        self._blocks.open_tool_use(id=self._new_id("toolu"), name=name)
