"""JSON as models write it by hand, cut into tokens: text that comes in pieces in, one token at a time out.

Grammar: RFC 8259, and what models make of it. Understood as well, each under a note of its own: single quotes, bare keys and
words, Python's words, commas too many or too few, raw line breaks and odd escapes in strings, quotes inside strings that
nobody escaped, brackets that are missing or too many. What can't be understood breaks the reading; nothing is guessed at.

Every decision is made from the same characters however the text was cut: where they are not there yet, it waits. It never
waits for more than `LOOKAHEAD` characters.
"""

import re
from collections import deque
from enum import Enum
from json import JSONDecoder

from translator.core.loose_json import mend

__all__ = ["Kind", "LooseLexer", "Token"]


class Kind(Enum):
    """What a token is."""

    #: `{` or `[`; and `}` or `]`.
    OPEN = "open"
    CLOSE = "close"
    #: A key, decoded.
    KEY = "key"
    #: A string begins; a piece of it, decoded; it ends.
    STRING = "string"
    TEXT = "text"
    END = "end"
    #: A number or word, as strict JSON.
    SCALAR = "scalar"


type Token = tuple[Kind, str]
#: A token or none, and where to go on; None to wait for more text.
type Step = tuple[Token | None, int] | None

#: Characters to look at, at most, before something is decided.
LOOKAHEAD = 1_000
#: The depth at which the official SDKs give up.
MAX_DEPTH = 200

SPACE = re.compile(r"\s*")
#: A piece of a string that the strict decoder reads.
RUN = re.compile(
    r'(?:[^"\\]+|\\["\\/bfnrt]|\\u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})++"
)
RUN_OF_SINGLE = re.compile(r"[^'\\]+")
CONTROL = re.compile(r"[\x00-\x1f]")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
#: An escape of a code unit, whole or as far as it came.
UNIT = re.compile(r"\\u[0-9a-fA-F]{4}")
UNIT_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
LOW_BEGUN = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?")
HIGH = re.compile(r"\\u[dD][89abAB]")
PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
DECODER = JSONDecoder(strict=False)

KEY = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([A-Za-z_$][\w$.-]*))\s*:""", re.DOTALL)
KEY_BEGUN = re.compile(
    r""""(?:[^"\\]|\\.)*(?:\\|"\s*)?|'(?:[^'\\]|\\.)*(?:\\|'\s*)?|[A-Za-z_$][\w$.-]*\s*""", re.DOTALL
)
#: A number or word, up to what may follow a value.
SCALAR = re.compile(r"[^\s,{}\[\]\"'<`][^,{}\[\]\"\n<`]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
STRICT_WORDS = ("true", "false", "null")

#: What follows a quote that ends a string: in an object, in an array, and after the last value of either.
AFTER_LAST = re.compile(r"\s*[}\]][\s}\]]*")
# A comma, or else a line's end, among the blanks; read so that a long run of blanks is gone over once.
NEXT_KEY = re.compile(r"""(?:\s*,|[^\S\n]*\n)\s*+(?:[}\]]|"(?:[^"\\\n]|\\.)*"\s*:|'(?:[^'\\\n]|\\.)*'\s*:)""")
NEXT_KEY_BEGUN = re.compile(
    r"""(?:\s*,|[^\S\n]*\n)\s*+(?:"(?:[^"\\\n]|\\.)*(?:\\|"\s*)?|'(?:[^'\\\n]|\\.)*(?:\\|'\s*)?)?|\s*+"""
)
NEXT_BARE_KEY = re.compile(r"\s*,\s*[A-Za-z_$][\w$-]*\s*:")
NEXT_BARE_KEY_BEGUN = re.compile(r"\s*(?:,\s*(?:[A-Za-z_$][\w$-]*\s*)?)?")
NEXT_ITEM = re.compile(r"""\s*,\s*["'{\[\]}0-9tfnTFN-]""")
NEXT_ITEM_BEGUN = re.compile(r"\s*(?:,\s*)?")
#: JSON in quotes, its own quotes not escaped: never the beginning of a sound string.
QUOTED = re.compile(r'"\s{0,99}(?=(?:\[\s{0,99})?\{\s{0,99}"[^"\\\n]{1,99}"\s{0,99}:)')
QUOTED_BEGUN = re.compile(r'"\s{0,99}(?:\[\s{0,99})?(?:\{\s{0,99}(?:"[^"\\\n]{0,99}(?:"\s{0,99})?)?)?')
#: What ends a call whose brackets nobody closed.
MARKS = ("</tool_call", "</function", "</tool>", "</\uff5c", "</|", "<tool_call", "<\uff5ctool", "```")


class State(Enum):
    """What the next character must begin or go on with."""

    VALUE = "a value"
    KEY = "a key, or the end of the object"
    SEPARATOR = "a comma, or the end"
    STRING = "more of a string"
    DONE = "nothing"
    BROKEN = "anything"


class LooseLexer:
    """Read one object or array."""

    def __init__(self, *, openers: str = "{[") -> None:
        """Start before the first character.

        Args:
            openers: What it may begin with.
        """
        #: What was understood though it is no JSON, as short codes.
        self.notes: list[str] = []
        #: Whether the next quote ends the string that it stands in, whatever follows.
        self.trusts_quotes = False
        self._openers = openers
        self._state = State.VALUE
        self._closers: list[str] = []
        self._quote = '"'
        self._has_bare_keys = False
        #: How deep JSON in quotes stands, and whether its last quote may come now.
        self._quoted_at: list[int] = []
        self._skips_quote = False
        self._waiting: deque[Token] = deque()

    @property
    def is_done(self) -> bool:
        """Whether the value has ended."""
        return self._state is State.DONE and not self._waiting

    @property
    def is_broken(self) -> bool:
        """Whether no more can be understood."""
        return self._state is State.BROKEN

    @property
    def is_in_string(self) -> bool:
        """Whether a string has begun and not ended."""
        return self._state is State.STRING

    def read(self, text: str, at: int, *, is_last: bool) -> tuple[Token | None, int]:
        """Return the next token and where it ends; None when there is none, for want of more text or for good.

        Args:
            text: What is there.
            at: Where to go on in it; what stands before is not looked at.
            is_last: Whether no more will come after `text`.
        """
        while not self._waiting and self._state not in (State.DONE, State.BROKEN):
            if self._state is not State.STRING:
                at = _end(SPACE, text, at)
            if at == len(text):
                return None, at
            step = self._step(text, at, is_last=is_last)
            if step is None:
                return None, at
            token, at = step
            if token is not None:
                return token, at
        return (self._waiting.popleft() if self._waiting else None), at

    def close(self) -> list[Token]:
        """Return what ends all that is open; it must be no string."""
        is_valueless = self._state is State.VALUE and self._closers[-1:] == ["}"]
        tokens: list[Token] = [(Kind.SCALAR, "null")] if is_valueless else []
        tokens += [(Kind.CLOSE, closer) for closer in reversed(self._closers)]
        if self._closers:
            self._note("tool_json_brackets")
        self._closers = []
        self._state = State.DONE
        return tokens

    def _step(self, text: str, at: int, *, is_last: bool) -> Step:
        """Read on from a character that is there."""
        if self._state is State.STRING:
            return self._read_string(text, at, is_last=is_last)
        if text[at] in "}]" and self._closers:
            return self._read_closer(text[at], at)
        if text[at] in "<`" and self._state is not State.VALUE:
            return self._read_mark(text, at, is_last=is_last)
        match self._state:
            case State.KEY:
                return self._read_key(text, at, is_last=is_last)
            case State.SEPARATOR:
                return self._read_separator(text[at], at)
            case _:
                return self._read_value(text, at, is_last=is_last)

    def _read_closer(self, character: str, at: int) -> Step:
        if self._state is State.VALUE and self._closers[-1] == "}":
            self._note("tool_json_loose")
            self._state = State.SEPARATOR
            return (Kind.SCALAR, "null"), at
        if character not in self._closers:
            self._note("tool_json_brackets")
            return None, at + 1
        closer = self._closers.pop()
        self._skips_quote = self._quoted_at[-1:] == [len(self._closers)]
        if self._skips_quote:
            self._quoted_at.pop()
        self._state = State.SEPARATOR if self._closers else State.DONE
        if closer == character:
            return (Kind.CLOSE, closer), at + 1
        self._note("tool_json_brackets")
        return (Kind.CLOSE, closer), at

    def _read_mark(self, text: str, at: int, *, is_last: bool) -> Step:
        """Take a mark that ends calls for what is missing before it."""
        if any(text.startswith(mark, at) for mark in MARKS):
            self._waiting.extend(self.close())
            return None, at
        rest = text[at : at + LOOKAHEAD]
        return None if not is_last and any(mark.startswith(rest) for mark in MARKS) else self._break(at)

    def _read_separator(self, character: str, at: int) -> Step:
        skips_quote, self._skips_quote = self._skips_quote, False
        if character == '"' and skips_quote:
            return None, at + 1
        self._state = State.KEY if self._closers[-1] == "}" else State.VALUE
        if character == ",":
            return None, at + 1
        if character in "\"'" or (self._state is State.VALUE and character in "{["):
            self._note("tool_json_commas")
            return None, at
        return self._break(at)

    def _read_key(self, text: str, at: int, *, is_last: bool) -> Step:
        if text[at] == ",":
            self._note("tool_json_commas")
            return None, at + 1
        found = KEY.match(text, at)
        if found is None or found.end() - at > LOOKAHEAD:
            begun = KEY_BEGUN.fullmatch(text, at) is not None and len(text) - at < LOOKAHEAD
            return None if begun and not is_last else self._break(at)
        quoted, single, bare = found.groups()
        if quoted is None:
            self._note("tool_json_loose")
        self._has_bare_keys = bare is not None
        self._state = State.VALUE
        return (Kind.KEY, bare or self._decoded(quoted or single or "")), found.end()

    def _read_value(self, text: str, at: int, *, is_last: bool) -> Step:
        character = text[at]
        if character in (self._openers if not self._closers else "{["):
            return self._open(character, at)
        if not self._closers:
            return self._break(at)
        if character in "\"'":
            return self._begin_string(text, at, is_last=is_last)
        if character == "," and self._closers[-1] == "]":
            self._note("tool_json_commas")
            return None, at + 1
        return self._read_scalar(text, at, is_last=is_last)

    def _begin_string(self, text: str, at: int, *, is_last: bool) -> Step:
        if text[at] == "'":
            self._note("tool_json_loose")
        elif quoted := QUOTED.match(text, at):
            self._note("tool_json_quotes")
            self._quoted_at.append(len(self._closers))
            return None, quoted.end()
        elif not is_last and len(text) - at < LOOKAHEAD and QUOTED_BEGUN.fullmatch(text, at):
            return None
        self._quote, self._state = text[at], State.STRING
        return (Kind.STRING, ""), at + 1

    def _open(self, opener: str, at: int) -> Step:
        if len(self._closers) >= MAX_DEPTH:
            return self._break(at)
        self._closers.append("}" if opener == "{" else "]")
        self._state = State.KEY if opener == "{" else State.VALUE
        return (Kind.OPEN, opener), at + 1

    def _read_scalar(self, text: str, at: int, *, is_last: bool) -> Step:
        end = _end(SCALAR, text, at)
        if end == at or end - at > LOOKAHEAD:
            return self._break(at)
        if end == len(text) and not is_last:
            return None
        word = text[at:end].rstrip()
        self._state = State.SEPARATOR
        is_strict = word in STRICT_WORDS or NUMBER.fullmatch(word)
        if not is_strict:
            self._note("tool_json_loose")
        if is_strict or word in WORDS:
            return (Kind.SCALAR, WORDS.get(word, word)), end
        self._waiting.extend([(Kind.STRING, ""), (Kind.TEXT, word), (Kind.END, "")])
        return None, end

    def _read_string(self, text: str, at: int, *, is_last: bool) -> Step:
        end = _end(RUN if self._quote == '"' else RUN_OF_SINGLE, text, at)
        if end > at:
            return (Kind.TEXT, self._decoded_run(text[at:end])), end
        if text[at] == "\\":
            return self._read_escape(text, at, is_last=is_last)
        rest = text[at + 1 : at + 1 + LOOKAHEAD]
        is_end = self.trusts_quotes or self._ends_string(rest, is_last=is_last or len(rest) == LOOKAHEAD)
        if is_end is None:
            return None
        if is_end:
            self._state = State.SEPARATOR
            return (Kind.END, ""), at + 1
        self._note("tool_json_quotes")
        return (Kind.TEXT, self._quote), at + 1

    def _read_escape(self, text: str, at: int, *, is_last: bool) -> Step:
        """Read an escape that a run holds none of: half a character's, one within single quotes, or none at all."""
        unit = UNIT.match(text, at)
        if unit is None:
            is_begun = UNIT_BEGUN.fullmatch(text, at) is not None
            return None if is_begun and not is_last else self._odd_escape(text, at)
        if HIGH.match(text, at):
            if pair := PAIR.match(text, at):
                return (Kind.TEXT, self._decoded(pair.group())), pair.end()
            if LOW_BEGUN.fullmatch(text, unit.end()) is not None and not is_last:
                return None
        return (Kind.TEXT, self._decoded(unit.group())), unit.end()

    def _odd_escape(self, text: str, at: int) -> Step:
        escaped = text[at + 1 : at + 2]
        if self._quote == "'" and escaped in ESCAPES:
            return (Kind.TEXT, ESCAPES[escaped]), at + 2
        self._note("tool_json_escapes")
        return ((Kind.TEXT, "'"), at + 2) if escaped == "'" else ((Kind.TEXT, "\\"), at + 1)

    def _ends_string(self, rest: str, *, is_last: bool) -> bool | None:
        """Tell whether the quote before `rest` ends its string; None when `rest` is too short to know.

        In sound JSON it always does. Where nothing that may follow a value follows, somebody forgot to escape it.
        """
        if last := AFTER_LAST.match(rest):
            if last.end() == len(rest):
                return True if is_last else None
            return bool(self._quoted_at) or rest[last.end()] not in "\"'"
        mark = rest.lstrip()
        if mark.startswith(MARKS) or (is_last and not mark):
            return True
        if not is_last and any(each.startswith(mark) for each in MARKS):
            return None
        if self._closers[-1] == "]":
            return _matches(NEXT_ITEM, NEXT_ITEM_BEGUN, rest, is_last=is_last)
        ends = _matches(NEXT_KEY, NEXT_KEY_BEGUN, rest, is_last=is_last)
        if ends is False and (self._has_bare_keys or self._quote == "'"):
            return _matches(NEXT_BARE_KEY, NEXT_BARE_KEY_BEGUN, rest, is_last=is_last)
        return ends

    def _decoded_run(self, run: str) -> str:
        if CONTROL.search(run):
            self._note("tool_json_escapes")
        return self._decoded(run) if self._quote == '"' and "\\" in run else run

    def _decoded(self, run: str) -> str:
        try:
            decoded: str = DECODER.decode(f'"{run}"')
        except ValueError:
            return run
        return mend(decoded)

    def _break(self, at: int) -> Step:
        self._state = State.BROKEN
        return None, at

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _matches(whole: re.Pattern[str], begun: re.Pattern[str], rest: str, *, is_last: bool) -> bool | None:
    """Tell whether `rest` begins with a pattern; None when it may still turn out to."""
    if whole.match(rest):
        return True
    return None if not is_last and begun.fullmatch(rest) else False
