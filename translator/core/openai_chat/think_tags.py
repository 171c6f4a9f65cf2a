"""Thinking that stands in the text between `<think>` and `</think>`, as models without a reasoning parser send it.

Only a block at the very start counts: further on, the tags may be what the text is about.
"""

from enum import Enum

__all__ = ["ThinkTags"]

OPEN, CLOSE = "<think>", "</think>"
#: White space before the tag; with more of it there is none.
MAX_SPACE = 64


class Place(Enum):
    """Where in the text the next character stands."""

    START = "before the first word"
    OPENED = "between the tag and the block's first word"
    THINKING = "in the block"
    AFTER = "between the block and the text"
    TEXT = "in the text"


class ThinkTags:
    """Split text into thinking and text."""

    def __init__(self) -> None:
        """Start before the first character."""
        self._place = Place.START
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """Return the thinking and the text that `text` adds, in this order."""
        if self._place is Place.TEXT:
            return "", text
        held, self._held = self._held + text, ""
        match self._place:
            case Place.START:
                return self._start(held)
            case Place.OPENED:
                return self._open(held)
            case Place.THINKING:
                return self._think(held)
            case _:
                return "", self._after(held)

    def flush(self) -> tuple[str, str]:
        """Return what was held back, as thinking and text."""
        held, self._held = self._held, ""
        return (held, "") if self._place is Place.THINKING else ("", held)

    def _start(self, held: str) -> tuple[str, str]:
        begun = held.lstrip()
        if begun.startswith(OPEN):
            self._place = Place.OPENED
            return self._open(begun.removeprefix(OPEN))
        if OPEN.startswith(begun) and len(held) <= MAX_SPACE:
            self._held = held
            return "", ""
        self._place = Place.TEXT
        return "", held

    def _open(self, held: str) -> tuple[str, str]:
        begun = held.lstrip()
        if not begun:
            return "", ""
        self._place = Place.THINKING
        return self._think(begun)

    def _think(self, held: str) -> tuple[str, str]:
        thinking, tag, text = held.partition(CLOSE)
        if tag:
            self._place = Place.AFTER
            return thinking, self._after(text)
        keep = next((n for n in range(len(CLOSE) - 1, 0, -1) if held.endswith(CLOSE[:n])), 0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep], ""

    def _after(self, text: str) -> str:
        text = text.lstrip()
        if text:
            self._place = Place.TEXT
        return text
