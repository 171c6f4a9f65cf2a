"""Calls written as JSON: one object, a list of them, or an object that holds the list.

The asked-for order, name before arguments, is told as it is written. Any other is kept until the call is complete.
"""

from dataclasses import dataclass, field
from enum import Enum

from translator.core.emulation.arguments import written
from translator.core.emulation.calls import Calls, State
from translator.core.emulation.loose_lexer import Kind, LooseLexer, Token
from translator.core.emulation.schema import required_of
from translator.core.emulation.source import Source

__all__ = ["JsonCalls", "JsonInput"]

NAMES = frozenset({"name", "tool", "tool_name", "function_name", "fn", "function", "tool_call"})
#: Of those, the ones whose value may be an object with the name in it.
NESTS = frozenset({"function", "tool", "tool_call"})
ARGUMENTS = frozenset({"arguments", "args", "parameters", "params", "input", "tool_input", "function_input", "kwargs"})
LISTS = frozenset({"tool_calls", "tools_calls", "calls", "function_calls", "tool_uses"})
IGNORED = frozenset({"id", "type", "index", "role", "call_id", "tool_call_id", "tool_use_id"})
DEPTHS = {Kind.OPEN: 1, Kind.STRING: 1, Kind.CLOSE: -1, Kind.END: -1}
EMPTY: list[Token] = [(Kind.OPEN, "{"), (Kind.CLOSE, "}")]


class Role(Enum):
    """What a value is to a call."""

    NAME = "its name"
    #: Its arguments: told as they come, kept, or written as a string.
    LIVE = "arguments"
    KEPT = "arguments before the name"
    STRING = "arguments in a string"
    SPILLED = "an argument outside the arguments"
    IGNORED = "nothing"


@dataclass(slots=True)
class Call:
    """A call as far as it was read."""

    name: str | None = None
    #: Whether it was told.
    is_open: bool = False
    has_arguments: bool = False
    #: Whether all of the arguments was told.
    is_filled: bool = False
    #: Whether it is a list of calls rather than one.
    is_list: bool = False
    kept: list[Token] = field(default_factory=list)
    spilled: list[Token] = field(default_factory=list)


class JsonInput:
    """Reads the arguments of the open call where nothing else is in the JSON."""

    def __init__(self, source: Source, calls: Calls) -> None:
        """Start where the object begins."""
        self.state = State.READING
        self._source = source
        self._calls = calls
        self._lexer = LooseLexer(openers="{")
        source.input.start(source.at)

    def read(self) -> None:
        """Read on as far as the text goes."""
        source = self._source
        while True:
            token, source.at = self._lexer.read(source.text, source.at, is_last=source.is_last)
            if token is None:
                break
            self._calls.take([token])
        self._settle()
        if self._calls.send():
            source.input.stop()

    def end(self) -> None:
        """End at the end of the text, which was not cut."""
        if self._lexer.is_in_string:
            self.state = State.BROKEN
        else:
            self._calls.take(self._lexer.close())
            self._settle()
            self._calls.send()

    def _settle(self) -> None:
        self._calls.note(*self._lexer.notes)
        if self._lexer.is_done:
            self.state = State.DONE
        elif self._lexer.is_broken:
            self.state = State.BROKEN


class JsonCalls:
    """Reads one JSON value, and tells the calls in it."""

    def __init__(self, source: Source, calls: Calls, *, is_doubtful: bool) -> None:
        """Start where the value begins.

        Args:
            source: The text.
            calls: Where to tell them.
            is_doubtful: Whether nothing but its form makes the value a call, so that it must be one to the letter.
        """
        self.state = State.READING
        self._source = source
        self._calls = calls
        self._is_doubtful = is_doubtful
        self._lexer = LooseLexer()
        #: Objects and lists around what is read; None for a list or an object within a call.
        self._frames: list[Call | None] = []
        self._call = Call()
        self._has_told = False
        self._key: str | None = None
        self._role: Role | None = None
        self._depth = 0
        self._name: list[str] = []
        self._inner = LooseLexer()
        self._inner_text = ""
        #: Arguments in a string, until some of them are sent.
        self._quoted: list[str] = []

    def read(self) -> None:
        """Read on as far as the text goes, or until it is no call."""
        source = self._source
        while self.state is State.READING:
            token, source.at = self._lexer.read(source.text, source.at, is_last=source.is_last)
            if token is None:
                self._settle()
                break
            self._take(token)
        self._note_lexer()
        if self._calls.send():
            source.input.stop()

    def end(self) -> None:
        """End at the end of the text, which was not cut."""
        if self._lexer.is_in_string:
            self._note_lexer()
            self._break()
            return
        for token in self._lexer.close():
            if self.state is State.READING:
                self._take(token)
        self._settle()
        self._note_lexer()
        self._calls.send()

    def _note_lexer(self) -> None:
        if self._has_told:
            self._calls.note(*self._lexer.notes, *self._inner.notes)

    def _settle(self) -> None:
        if self._lexer.is_done and self.state is State.READING:
            self.state = State.DONE
        elif self._lexer.is_broken:
            self._break()

    def _break(self) -> None:
        if self._call.is_open and self._call.is_filled:
            # All of the arguments is there; what is broken is around them.
            self._calls.note("tool_json_brackets")
            self._end_call(self._call)
            self.state = State.DONE
            return
        self.state = State.BROKEN if self._calls.is_open else State.REJECTED

    def _take(self, token: Token) -> None:
        if self._role is None:
            self._take_structure(token)
            return
        kind = token[0]
        self._depth += DEPTHS.get(kind, 0)
        role = self._role
        is_end = self._depth == 0 and kind is not Kind.TEXT
        if is_end:
            self._role = None
        self._take_value(role, token, is_end=is_end)

    def _take_structure(self, token: Token) -> None:
        kind, text = token
        if self._key is not None:
            self._begin_value(self._key, token)
        elif kind is Kind.KEY:
            self._key = text
            self._source.input.start(self._source.at)
            self._lexer.trusts_quotes = text in NAMES and self._call.name is None
        elif kind is Kind.CLOSE:
            self._end_frame()
        elif kind is Kind.OPEN and text == "{":
            self._begin_call()
        elif kind is Kind.OPEN and not self._frames:
            self._frames.append(None)
        else:
            self._break()

    def _begin_call(self) -> None:
        if self._has_told:
            # What was told stays a call, whatever becomes of this one.
            self._source.call.start(self._source.at - 1)
        self._frames.append(self._call)
        self._call = Call()

    def _end_frame(self) -> None:
        outer = self._frames.pop()
        if outer is not None:
            self._end_call(self._call)
            self._call = outer

    def _begin_value(self, key: str, token: Token) -> None:
        self._key = None
        is_object = token == (Kind.OPEN, "{")
        if key in LISTS and token[0] is Kind.OPEN and self._call.name is None:
            self._call.is_list = True
            if is_object:
                self._begin_call()
            else:
                self._frames.append(None)
        elif key in NESTS and is_object and self._call.name is None:
            self._frames.append(None)
        else:
            self._role = self._role_of(key, token)
            self._take(token)

    def _role_of(self, key: str, token: Token) -> Role:
        call = self._call
        if key in NAMES and call.name is None and token[0] is Kind.STRING:
            return Role.NAME
        if key in ARGUMENTS and not call.has_arguments:
            call.has_arguments = True
            return self._role_of_arguments(call, token)
        if key in IGNORED or (call.has_arguments and (call.is_open or not self._is_doubtful)):
            return Role.IGNORED
        call.spilled.append((Kind.KEY, key))
        return Role.SPILLED

    def _role_of_arguments(self, call: Call, token: Token) -> Role:
        if call.name is None or not self._open(call):
            return Role.KEPT
        if token == (Kind.OPEN, "{"):
            return Role.LIVE
        if token[0] is Kind.STRING:
            self._note_lexer()
            self._inner, self._inner_text, self._quoted = LooseLexer(openers="{"), "", []
            return Role.STRING
        return Role.KEPT

    def _open(self, call: Call) -> bool:
        if not call.is_open:
            call.is_open = self._has_told = self._calls.open(call.name or "")
            self._source.call.stop()
        return call.is_open

    def _take_value(self, role: Role, token: Token, *, is_end: bool) -> None:
        call = self._call
        match role:
            case Role.NAME:
                self._take_name(token, is_end=is_end)
            case Role.LIVE:
                self._calls.take([token])
                call.is_filled = is_end
            case Role.STRING:
                self._take_quoted(token, is_end=is_end)
            case Role.KEPT:
                call.kept.append(token)
            case Role.SPILLED:
                call.spilled.append(token)
                if self._is_doubtful:
                    self._break()
            case _:
                pass

    def _take_name(self, token: Token, *, is_end: bool) -> None:
        if not is_end:
            self._name.append(token[1])
            return
        self._lexer.trusts_quotes = False
        self._call.name, self._name = "".join(self._name), []
        if self._calls.tools.named(self._call.name) is None:
            self._break()
        elif not self._is_doubtful:
            self._open(self._call)

    def _take_quoted(self, token: Token, *, is_end: bool) -> None:
        """Read arguments that are encoded twice."""
        self._calls.note("tool_arguments_quoted")
        if not self._calls.is_sent:
            self._quoted.append(token[1])
        text, at = self._inner_text + token[1], 0
        while True:
            inner, at = self._inner.read(text, at, is_last=is_end)
            if inner is None:
                break
            self._calls.take([inner])
        self._inner_text = "" if self._inner.is_done or self._inner.is_broken else text[at:]
        self._call.is_filled = self._inner.is_done
        if not is_end or self._inner.is_done:
            return
        if not self._inner.is_broken and not self._inner.is_in_string:
            self._calls.take(self._inner.close())
        elif self._calls.send():
            self._break()
        else:
            self._call.kept = [(Kind.TEXT, "".join(self._quoted))]

    def _end_call(self, call: Call) -> None:
        if call.is_list and call.name is None:
            return
        if not call.is_open and not self._may_open(call):
            self.state = State.REJECTED
            return
        self._open(call)
        if call.kept and call.kept[0] == (Kind.SCALAR, "null"):
            call.kept = []
        if call.kept and call.kept[0] != (Kind.OPEN, "{"):
            is_text = call.kept[0][0] is Kind.TEXT
            self._calls.close_invalid(call.kept[0][1] if is_text else written(call.kept))
            return
        if call.kept:
            self._calls.take(call.kept)
        elif call.spilled and not call.has_arguments:
            self._calls.note("tool_arguments_spilled")
            self._calls.take([EMPTY[0], *call.spilled, EMPTY[1]])
        self._calls.close()

    def _may_open(self, call: Call) -> bool:
        """Tell whether a doubtful call, read to its end, is one: it must have what the tool demands."""
        tool = self._calls.tools.named(call.name or "")
        if tool is None:
            return False
        return call.has_arguments or not required_of(self._calls.tools.schemas[tool])
