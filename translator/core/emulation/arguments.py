"""The arguments of one call: tokens in, strict JSON out, as soon as it is certain.

What was written is never taken back. So whatever can be repaired only with its end in sight is held until that: an
argument of the wrong type, by the tool's schema, and the object's beginning, until its first value is known to be sound.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from translator.core.emulation.loose_lexer import Kind, LooseLexer, Token
from translator.core.emulation.schema import TYPE_OF_OPENER, fits, from_text, properties_of, required_of, types_of

__all__ = ["ArgumentsWriter", "strict_json", "written"]

MENDED = "tool_type_mended"


class ArgumentsWriter:
    """Write one object, or any other value."""

    def __init__(self, schema: Mapping[str, Any], *, is_untyped: bool = False) -> None:
        """Start before the first token.

        Args:
            schema: What the tool's input must match.
            is_untyped: Whether all values come as text, so that finding their type is no repair.
        """
        #: What was repaired, as short codes.
        self.notes: list[str] = []
        #: Whether a part of it was taken, and so can't be replaced any more.
        self.is_sent = False
        self._properties = properties_of(schema)
        self._required = required_of(schema)
        self._is_untyped = is_untyped
        self._out: list[str] = []
        self._has_value = False
        #: For each open object or array, whether something is in it.
        self._filled: list[bool] = []
        self._key: str | None = None
        self._types: frozenset[str] = frozenset()
        self._held: list[str] | None = None
        #: Depth of an object that is written as a string, since the schema wants one.
        self._quoted_at = 0

    def take(self, token: Token) -> None:
        """Read a token."""
        kind, text = token
        match kind:
            case Kind.TEXT:
                self._text(text)
            case Kind.KEY:
                self._key = text
                if len(self._filled) == 1:
                    self._types = types_of(self._properties.get(text))
            case Kind.STRING:
                self._begin_string()
            case Kind.END:
                self._end_string()
            case Kind.SCALAR:
                self._scalar(text)
            case Kind.OPEN:
                self._open(text)
            case _:
                self._close(text)

    def ready(self) -> str:
        """Return what can be sent and was not."""
        if not self._has_value:
            return ""
        out, self._out = "".join(self._out), []
        self.is_sent = self.is_sent or bool(out)
        return out

    @property
    def _is_argument(self) -> bool:
        """Whether the value at hand is an argument whose types are known."""
        return len(self._filled) == 1 and bool(self._types)

    def _begin_string(self) -> None:
        if self._is_argument and "string" not in self._types:
            self._held = []
            return
        self._lead()
        self._write('"')

    def _text(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
        else:
            self._write(_escaped(text))

    def _end_string(self) -> None:
        if self._held is None:
            self._write('"')
            return
        text, self._held = "".join(self._held), None
        value = from_text(text, self._types) or self._structure(text)
        self._lead()
        if value is None:
            self._write(f'"{_escaped(text)}"')
        else:
            self._note()
            self._write(value)

    def _structure(self, text: str) -> str | None:
        """Return the object or array that a text holds, where one is wanted."""
        wanted = self._types & {"object", "array"}
        value = strict_json(text) if wanted else None
        return value if value is not None and TYPE_OF_OPENER[value[0]] in wanted else None

    def _scalar(self, scalar: str) -> None:
        if not self._is_argument or fits(scalar, self._types):
            self._lead()
            self._write(scalar)
            return
        self._note()
        if scalar == "null" and self._key not in self._required:
            # An argument that may be left out, and was meant to be.
            self._key, self._has_value = None, True
            return
        self._lead()
        if "string" in self._types:
            self._write(f'"{scalar}"')
        else:
            self._write(from_text(scalar, self._types) or scalar)

    def _open(self, opener: str) -> None:
        is_quoted = self._is_argument and TYPE_OF_OPENER[opener] not in self._types and "string" in self._types
        self._lead(is_value=bool(self._filled))
        if is_quoted:
            self._note()
            self._write('"')
            self._quoted_at = len(self._filled)
        self._write(opener)
        self._filled.append(False)

    def _close(self, closer: str) -> None:
        self._filled.pop()
        self._write(closer)
        self._has_value = True
        if self._quoted_at and len(self._filled) == self._quoted_at:
            self._quoted_at = 0
            self._write('"')

    def _lead(self, *, is_value: bool = True) -> None:
        """Write what stands before a value: comma and key."""
        if self._filled:
            if self._filled[-1]:
                self._write(",")
            self._filled[-1] = True
        if self._key is not None:
            self._write(f'"{_escaped(self._key)}":')
            self._key = None
        self._has_value = self._has_value or is_value

    def _write(self, json: str) -> None:
        self._out.append(_escaped(json) if self._quoted_at else json)

    def _note(self) -> None:
        if not self._is_untyped and MENDED not in self.notes:
            self.notes.append(MENDED)


def strict_json(text: str) -> str | None:
    """Return the object or array in a text as strict JSON; None when there is none, or more than that."""
    lexer, tokens, at = LooseLexer(), list[Token](), 0
    while not lexer.is_done:
        token, at = lexer.read(text, at, is_last=True)
        if token is None:
            return None
        tokens.append(token)
    return None if text[at:].strip() else written(tokens)


def written(tokens: Iterable[Token]) -> str:
    """Return the value that tokens make as strict JSON."""
    writer = ArgumentsWriter({})
    for token in tokens:
        writer.take(token)
    return writer.ready()


def _escaped(text: str) -> str:
    return orjson.dumps(text).decode()[1:-1]
