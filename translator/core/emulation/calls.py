"""The calls that were found in a text: what the readers of the several forms tell, to pieces of an answer."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import orjson

from translator.core.emulation.arguments import ArgumentsWriter
from translator.core.emulation.loose_lexer import Kind, Token
from translator.core.loose_json import mend
from translator.core.tool_json import INVALID_JSON

__all__ = ["Calls", "Part", "Piece", "State", "Tools"]


class Part(Enum):
    """What a piece of an answer is."""

    TEXT = "text"
    #: A call begins, of the tool named.
    CALL = "call"
    #: More of its input.
    INPUT = "input"
    #: It is complete.
    STOP = "stop"


type Piece = tuple[Part, str]


class State(Enum):
    """How far a reader of calls has come."""

    READING = "more is to come"
    DONE = "all of it was read"
    #: It is no call, or of no tool that was offered: nothing of it was told.
    REJECTED = "no call"
    #: A call was told, and its arguments make no sense.
    BROKEN = "broken"


#: What models put before a tool's name, and behind it.
DECORATION = re.compile(r"^(?:functions?|tools?|default_api)[.:]|:[0-9]+$|\(\)$")


class Tools:
    """The tools that may be called."""

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Know them by name."""
        self.schemas = schemas
        self._by_folded: dict[str, str | None] = {}
        for name in schemas:
            folded = _folded(name)
            self._by_folded[folded] = None if folded in self._by_folded else name

    def named(self, name: str) -> str | None:
        """Return the tool that is meant by a name; None when there is none, or more than one."""
        name = name.strip()
        if name in self.schemas:
            return name
        return self._by_folded.get(_folded(DECORATION.sub("", name)))


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


class Calls:
    """Write one call after the other."""

    def __init__(self, tools: Tools) -> None:
        """Start before the first call."""
        self.tools = tools
        #: What was told and not taken yet.
        self.pieces: list[Piece] = []
        #: What was repaired, as short codes.
        self.notes: list[str] = []
        #: Calls that were begun.
        self.count = 0
        #: Whether the last call stayed incomplete, since the upstream ran out of tokens.
        self.is_cut = False
        #: Whether a call was begun and did not end.
        self.is_open = False
        self._writer = ArgumentsWriter({})

    @property
    def mark(self) -> tuple[int, int, int]:
        """What to go back to by `forget`."""
        return self.count, len(self.pieces), len(self.notes)

    def forget(self, mark: tuple[int, int, int]) -> None:
        """Take back what was told since a mark, none of which was taken."""
        self.count, pieces, notes = mark
        del self.pieces[pieces:], self.notes[notes:]
        self.is_open = False

    @property
    def is_sent(self) -> bool:
        """Whether a part of the open call's arguments was told."""
        return self.is_open and self._writer.is_sent

    def open(self, name: str, *, is_untyped: bool = False) -> bool:
        """Begin a call; return False where no tool of this name was offered.

        Args:
            name: The name as the model wrote it.
            is_untyped: Whether the form that it is written in knows text only.
        """
        tool = self.tools.named(name)
        if tool is None:
            return False
        if tool != name.strip():
            self.note("tool_name_mended")
        self._writer = ArgumentsWriter(self.tools.schemas[tool], is_untyped=is_untyped)
        self.is_open = True
        self.count += 1
        self.pieces.append((Part.CALL, tool))
        return True

    def take(self, tokens: Iterable[Token]) -> None:
        """Write tokens of the open call's arguments."""
        for token in tokens:
            self._writer.take(token)

    def send(self) -> bool:
        """Tell what is ready of the arguments; return whether any of them were told by now."""
        if self.is_open and (ready := self._writer.ready()):
            self.pieces.append((Part.INPUT, ready))
        return self.is_sent

    def close(self) -> None:
        """End the open call; one without arguments gets an empty object."""
        if not self.send():
            self.take([(Kind.OPEN, "{"), (Kind.CLOSE, "}")])
            self.send()
        self._end()

    def close_invalid(self, raw: str) -> None:
        """End the open call, of which nothing was told but its name, with arguments that nobody can read."""
        self.note("tool_json_invalid")
        self.pieces.append((Part.INPUT, orjson.dumps({INVALID_JSON: mend(raw.strip())}).decode()))
        self._end()

    def cut(self) -> None:
        """Leave the open call as far as it came."""
        self.is_cut = True
        if not self._writer.is_sent:
            self.close()
            return
        self._end()

    def note(self, *notes: str) -> None:
        """Note repairs, each once."""
        self.notes += [note for note in dict.fromkeys(notes) if note not in self.notes]

    def _end(self) -> None:
        self.note(*self._writer.notes)
        self.pieces.append((Part.STOP, ""))
        self.is_open = False
