"""The arguments of a tool call: JSON objects that arrive in fragments, and not always whole.

The official SDKs parse the joined fragments and fail the whole stream on the first fault, so that what is passed on
must be the beginning of a JSON object at any time. Grammar: RFC 8259.

Repaired on the way: white space around the object is dropped, raw control characters in strings are escaped, and
whatever follows the object is ignored (some upstreams send it twice).
"""

import re
from enum import Enum
from typing import Any

import orjson

from translator.core.loose_json import loads, mend

__all__ = ["INVALID_JSON", "ObjectReader", "parse_partial", "settle_arguments"]

#: Key under which input that is no JSON object is reported to the client, as the Messages API does.
INVALID_JSON = "INVALID_JSON"
#: The depth at which the official SDKs give up.
MAX_DEPTH = 200
#: Digits of the longest number.
MAX_SCALAR = 400

STRING_RUN = re.compile(r'[^"\\\x00-\x1f]*')
SPACE_RUN = re.compile(r"[ \t\r\n]*")
SCALAR_RUN = re.compile(r"[-+.0-9A-Za-z]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
NUMBER_BEGUN = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[eE][-+]?[0-9]*)?)?")
WORDS = ("true", "false", "null")
HIGH = re.compile(r"\\u[dD][89abAB]..")
LOW = re.compile(r"\\u[dD][c-fC-F]..")
REPLACEMENT = "\\ufffd"
HEX = frozenset("0123456789abcdefABCDEF")


class Expect(Enum):
    """What the next character must begin or go on with."""

    OBJECT = "the object"
    FIRST_KEY = "a key, or the end of the object"
    KEY = "a key"
    COLON = "a colon"
    FIRST_ITEM = "a value, or the end of the array"
    VALUE = "a value"
    SEPARATOR = "a comma, or the end"
    IN_KEY = "more of a key"
    IN_STRING = "more of a string"
    IN_SCALAR = "more of a number or word"
    NOTHING = "nothing"
    BROKEN = "anything"


class ObjectReader:
    """Check a JSON object that comes in fragments, in time linear in its length."""

    def __init__(self) -> None:
        """Start before the first character."""
        self._expect = Expect.OBJECT
        self._closers: list[str] = []
        self._scalar = ""
        self._escape = ""
        self._high = ""
        #: Whether the first key is known to be sound: before that, a broken object can still be replaced.
        self.has_key = False
        #: Characters accepted.
        self.size = 0
        #: Characters accepted up to the end of the last complete key and value of the object itself.
        self.pairs_size = 1

    @property
    def is_begun(self) -> bool:
        """Whether the object's brace has come."""
        return self._expect is not Expect.OBJECT

    @property
    def expects_value(self) -> bool:
        """Whether a value comes next, which may be an object."""
        return self._expect in (Expect.VALUE, Expect.FIRST_ITEM)

    @property
    def is_complete(self) -> bool:
        """Whether the object has ended."""
        return self._expect is Expect.NOTHING

    @property
    def is_broken(self) -> bool:
        """Whether this can never be a JSON object."""
        return self._expect is Expect.BROKEN

    def feed(self, fragment: str) -> str:
        """Return what of `fragment` goes on with the object: a part, where the object ends or breaks in it."""
        accepted: list[str] = []
        at, end = 0, len(fragment)
        while at < end and self._expect not in (Expect.NOTHING, Expect.BROKEN):
            if self._expect in (Expect.IN_STRING, Expect.IN_KEY):
                at = self._read_string(fragment, at, accepted)
            else:
                at = self._read_token(fragment, at, accepted)
        return "".join(accepted)

    def _accept(self, text: str, accepted: list[str]) -> None:
        accepted.append(text)
        self.size += len(text)

    def _read_string(self, fragment: str, at: int, accepted: list[str]) -> int:
        if self._escape:
            return self._read_escape(fragment, at, accepted)
        if self._high and fragment[at] != "\\":
            self._accept_escape("", accepted)
        stop = _run_end(STRING_RUN, fragment, at)
        if stop > at:
            self._accept(fragment[at:stop], accepted)
        if stop == len(fragment):
            return stop
        match fragment[stop]:
            case '"':
                self._accept('"', accepted)
                self._expect = Expect.COLON if self._expect is Expect.IN_KEY else Expect.SEPARATOR
                self._mark_pair()
            case "\\":
                self._escape = "\\"
            case control:
                self._accept(orjson.dumps(control).decode()[1:-1], accepted)
        return stop + 1

    def _read_escape(self, fragment: str, at: int, accepted: list[str]) -> int:
        """Read one more character of an escape, which is passed on only once it is whole."""
        escape = self._escape = self._escape + fragment[at]
        if len(escape) == 2:
            is_sound, is_whole = escape[1] in '"\\/bfnrtu', escape[1] != "u"
        else:
            is_sound, is_whole = fragment[at] in HEX, len(escape) == 6
        if not is_sound:
            self._expect = Expect.BROKEN
        elif is_whole:
            self._escape = ""
            self._accept_escape(escape, accepted)
        return at + 1

    def _accept_escape(self, escape: str, accepted: list[str]) -> None:
        """Pass an escape on, with surrogates in pairs only: some JSON readers refuse the others."""
        high, self._high = self._high, ""
        if LOW.fullmatch(escape):
            self._accept(high + escape if high else REPLACEMENT, accepted)
            return
        if high:
            self._accept(REPLACEMENT, accepted)
        if HIGH.fullmatch(escape):
            self._high = escape
        else:
            self._accept(escape, accepted)

    def _read_token(self, fragment: str, at: int, accepted: list[str]) -> int:
        if self._expect is Expect.IN_SCALAR:
            return self._read_scalar(fragment, at, accepted)
        stop = _run_end(SPACE_RUN, fragment, at)
        if stop > at:
            if self.is_begun:
                self._accept(fragment[at:stop], accepted)
            return stop
        expect = self._expect = self._step(fragment[at])
        if expect in (Expect.IN_SCALAR, Expect.BROKEN):
            return at
        self._accept(fragment[at], accepted)
        self._mark_pair()
        return at + 1

    def _step(self, character: str) -> Expect:
        """Return what may follow a character of structure, or the first one of a number or word."""
        match self._expect, character:
            case ((Expect.OBJECT | Expect.VALUE | Expect.FIRST_ITEM), "{"):
                return self._open("}", Expect.FIRST_KEY)
            case ((Expect.VALUE | Expect.FIRST_ITEM), "["):
                return self._open("]", Expect.FIRST_ITEM)
            case ((Expect.FIRST_KEY | Expect.KEY), '"'):
                return Expect.IN_KEY
            case ((Expect.VALUE | Expect.FIRST_ITEM), '"'):
                return Expect.IN_STRING
            case Expect.COLON, ":":
                self.has_key = True
                return Expect.VALUE
            case Expect.SEPARATOR, ",":
                return Expect.KEY if self._closers[-1] == "}" else Expect.VALUE
            case (Expect.FIRST_KEY, "}") | (Expect.FIRST_ITEM, "]"):
                return self._close()
            case Expect.SEPARATOR, ("}" | "]") if character == self._closers[-1]:
                return self._close()
            case ((Expect.VALUE | Expect.FIRST_ITEM), _) if character in "-0123456789tfn":
                self._scalar = ""
                return Expect.IN_SCALAR
            case _:
                return Expect.BROKEN

    def _open(self, closer: str, expect: Expect) -> Expect:
        self._closers.append(closer)
        return expect if len(self._closers) <= MAX_DEPTH else Expect.BROKEN

    def _close(self) -> Expect:
        self._closers.pop()
        return Expect.SEPARATOR if self._closers else Expect.NOTHING

    def _mark_pair(self) -> None:
        if len(self._closers) == 1 and self._expect is Expect.SEPARATOR:
            self.pairs_size = self.size

    def _read_scalar(self, fragment: str, at: int, accepted: list[str]) -> int:
        stop = _run_end(SCALAR_RUN, fragment, at)
        self._scalar += fragment[at:stop]
        if not _is_scalar_begun(self._scalar):
            self._expect = Expect.BROKEN
            return at
        self._accept(fragment[at:stop], accepted)
        if stop < len(fragment):
            is_whole = self._scalar in WORDS or NUMBER.fullmatch(self._scalar)
            self._expect = Expect.SEPARATOR if is_whole else Expect.BROKEN
            self._mark_pair()
        return stop


def settle_arguments(raw: str, *, is_truncated: bool = False) -> dict[str, Any]:
    """Return the input of a tool call whose arguments are all there.

    Args:
        raw: The arguments as the upstream sent them.
        is_truncated: Whether the upstream ran out of tokens: complete pairs are then kept, and the rest is dropped.
    """
    text = raw.strip()
    if not text:
        return {}
    reader = ObjectReader()
    accepted = reader.feed(text)
    if reader.is_complete:
        return _settle_object(accepted, text)
    if (other := _settle_other(text)) is not None:
        return other
    if is_truncated and accepted and not reader.is_broken:
        return _load_object(accepted[: reader.pairs_size] + "}")
    return {INVALID_JSON: mend(raw)}


def parse_partial(text: str) -> dict[str, Any]:
    """Return the complete pairs of the beginning of a JSON object."""
    reader = ObjectReader()
    accepted = reader.feed(text)
    if not reader.is_complete:
        accepted = accepted[: reader.pairs_size] + "}" if accepted else "{}"
    return _load_object(accepted)


def _settle_object(accepted: str, text: str) -> dict[str, Any]:
    value = _load_object(accepted)
    rest = text[len(accepted) :].lstrip()
    # Some upstreams send an empty object first, and then the arguments.
    if not value and rest.startswith("{"):
        return settle_arguments(rest)
    return value


def _settle_other(text: str) -> dict[str, Any] | None:
    """Return the input for arguments that are JSON, but no object; None when that is no input either."""
    try:
        value = loads(text)
    except ValueError:
        return None
    if value is None:
        return {}
    return _settle_quoted(value) if isinstance(value, str) else None


def _settle_quoted(text: str) -> dict[str, Any] | None:
    """Return the object that stands in a JSON string, as some upstreams encode arguments twice."""
    reader = ObjectReader()
    accepted = reader.feed(text)
    return _load_object(accepted) if reader.is_complete else None


def _load_object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = loads(mend(text))
    return value


def _run_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    run = pattern.match(text, at)
    return run.end() if run else at


def _is_scalar_begun(scalar: str) -> bool:
    if len(scalar) > MAX_SCALAR:
        return False
    return bool(NUMBER_BEGUN.fullmatch(scalar)) or any(word.startswith(scalar) for word in WORDS)
