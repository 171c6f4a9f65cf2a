"""A call written in tags: its name in the first, each argument in one of its own, as plain text.

`<function=NAME><parameter=KEY>value</parameter></function>`, or `<invoke name="NAME"><parameter name="KEY">value</parameter>
</invoke>`. Some models write the arguments as one JSON object in the outer tag instead, and GLM writes no outer tag:
`NAME<arg_key>KEY</arg_key><arg_value>value</arg_value>`.
"""

import re
from enum import Enum

from translator.core.emulation.calls import Calls, State
from translator.core.emulation.json_calls import JsonInput
from translator.core.emulation.loose_lexer import Kind
from translator.core.emulation.marks import CLOSERS, PREFIX, PREFIXES, Marks
from translator.core.emulation.source import Source

__all__ = ["TagCall"]

#: Characters of a tag, at most.
MAX_TAG = 300
HEAD = re.compile(rf"<{PREFIX}(?:function=|invoke name=) *[\"']?([^\"'<>\n]+)[\"']?[^<>\n]*>")
PARAMETER = re.compile(rf"<{PREFIX}param(?:eter)?(?:=| name=) *[\"']?([^\"'<>\n]+)[\"']?[^<>\n]*>")
PAIR = re.compile(r"<arg_key>\s{0,9}([^<>\n]+?)\s{0,9}</arg_key>\s{0,9}<arg_value>")
END = re.compile(rf"</{PREFIX}(?:function|invoke)>")
PARAMETERS = Marks(f"<{prefix}param{rest}" for prefix in PREFIXES for rest in ("eter=", "eter name=", "=", " name="))
ENDS = Marks(f"</{prefix}{name}>" for prefix in PREFIXES for name in ("function", "invoke"))
PAIRS = Marks(("<arg_key>",))
VALUE_ENDS = Marks(("</arg_value>", *(f"</{prefix}{name}>" for prefix in PREFIXES for name in ("parameter", "param"))))
SPACE = re.compile(r"\s*")


class Place(Enum):
    """Where in the call the next character stands."""

    HEAD = "in the first tag"
    BODY = "between arguments"
    VALUE_BEGUN = "at the beginning of a value"
    VALUE = "in a value"
    JSON = "in a JSON object"


class TagCall:
    """Reads one call."""

    def __init__(self, source: Source, calls: Calls, *, is_named: bool = False) -> None:
        """Start where the first tag begins.

        Args:
            source: The text.
            calls: Where to tell the call.
            is_named: Whether its name stood before, with no tag around the call: then it is open already.
        """
        self.state = State.READING
        self._source = source
        self._calls = calls
        self._is_named = is_named
        self._place = Place.BODY if is_named else Place.HEAD
        self._json: JsonInput | None = None
        #: How the arguments are written, once the first has come.
        self._has_tags = False
        self._has_json = False
        #: Whether the value stands on lines of its own: the line breaks around it are not part of it.
        self._is_on_lines = False

    def read(self) -> None:
        """Read on as far as the text goes."""
        while self.state is State.READING and self._step():
            pass
        if self._calls.send():
            self._source.input.stop()

    def end(self) -> None:
        """End at the end of the text, which was not cut."""
        if self._place is Place.JSON and self._json is not None:
            self._json.end()
            if self._json.state is State.DONE:
                self._place = Place.BODY
        if self._place is Place.BODY:
            self._end_call(is_closed=self._is_named)
        else:
            self.state = State.BROKEN if self._calls.is_open else State.REJECTED

    def _step(self) -> bool:
        """Read one thing; return False where more text is needed."""
        match self._place:
            case Place.HEAD:
                return self._read_head()
            case Place.BODY:
                return self._read_body()
            case Place.VALUE_BEGUN:
                return self._read_beginning()
            case Place.VALUE:
                return self._read_value()
            case _:
                return self._json is not None and self._read_json(self._json)

    def _read_head(self) -> bool:
        source = self._source
        found = HEAD.match(source.text, source.at)
        if found is None or found.end() - found.start() > MAX_TAG:
            return self._wait_for_tag()
        if not self._calls.open(found[1], is_untyped=True):
            self.state = State.REJECTED
            return False
        source.at = found.end()
        source.call.stop()
        source.input.start(source.at)
        self._place = Place.BODY
        return True

    def _wait_for_tag(self) -> bool:
        """Wait for the end of a tag, unless it will never be one."""
        source = self._source
        tag = source.text[source.at : source.at + MAX_TAG]
        if source.is_last or len(tag) == MAX_TAG or ">" in tag or "\n" in tag or "<" in tag[1:]:
            self.state = State.BROKEN if self._calls.is_open else State.REJECTED
        return False

    def _read_body(self) -> bool:
        source = self._source
        source.at = _space_end(source.text, source.at)
        text, at = source.text, source.at
        if source.is_read:
            return False
        if not self._has_json and PARAMETERS.at(text, at):
            found = PARAMETER.match(text, at)
            if found is None or found.end() - at > MAX_TAG:
                return self._wait_for_tag()
            self._begin_value(found)
        elif PAIRS.at(text, at):
            return self._read_pair(PAIR.match(text, at))
        elif found := END.match(text, at):
            source.at = found.end()
            self._end_call(is_closed=True)
        elif text[at] == "{" and not self._has_tags and not self._has_json:
            self._json = JsonInput(source, self._calls)
            self._place = Place.JSON
        elif not source.is_last and any(marks.may_begin(text, at) for marks in (PARAMETERS, PAIRS, ENDS)):
            return False
        else:
            self._end_call(is_closed=self._is_named)
        return True

    def _read_pair(self, found: re.Match[str] | None) -> bool:
        source = self._source
        if found is not None and found.end() - source.at <= MAX_TAG:
            self._begin_value(found)
            return True
        if source.is_last or len(source.text) - source.at >= MAX_TAG:
            self.state = State.BROKEN
        return False

    def _begin_value(self, tag: re.Match[str]) -> None:
        if not self._has_tags:
            self._calls.take([(Kind.OPEN, "{")])
        self._has_tags = True
        self._calls.take([(Kind.KEY, tag[1]), (Kind.STRING, "")])
        self._source.at = tag.end()
        self._place = Place.VALUE_BEGUN

    def _read_beginning(self) -> bool:
        source = self._source
        if source.is_read:
            return False
        self._is_on_lines = source.text[source.at] == "\n"
        source.at += self._is_on_lines
        self._place = Place.VALUE
        return True

    def _read_value(self) -> bool:
        source = self._source
        at = source.text.find("<", source.at)
        while at >= 0:
            is_end = self._is_end_of_value(at)
            if is_end is None:
                self._tell(self._before_break(at))
                return False
            if is_end:
                self._end_value(at)
                return True
            at = source.text.find("<", at + 1)
        self._tell(self._before_break(len(source.text)))
        return False

    def _is_end_of_value(self, at: int) -> bool | None:
        """Tell whether the value ends at `at`; None when that can't be told yet."""
        text, is_last = self._source.text, self._source.is_last
        if VALUE_ENDS.at(text, at):
            return True
        if call_end := ENDS.at(text, at):
            # Part of a value, unless the calls end right after it: somebody forgot to end the value.
            after = _space_end(text, at + len(call_end))
            if CLOSERS.at(text, after) or (is_last and after == len(text)):
                return True
            return None if not is_last and (after == len(text) or CLOSERS.may_begin(text, after)) else False
        may_end = VALUE_ENDS.may_begin(text, at) or ENDS.may_begin(text, at)
        return None if may_end and not is_last else False

    def _before_break(self, at: int) -> int:
        """Return where a line break before `at` stands that may not be part of the value; else `at`."""
        is_break = self._is_on_lines and at > self._source.at and self._source.text[at - 1] == "\n"
        return at - 1 if is_break else at

    def _tell(self, end: int) -> None:
        source = self._source
        if end > source.at:
            self._calls.take([(Kind.TEXT, source.text[source.at : end])])
            source.at = end

    def _end_value(self, at: int) -> None:
        self._tell(self._before_break(at))
        self._calls.take([(Kind.END, "")])
        tag = VALUE_ENDS.at(self._source.text, at)
        if tag is None:
            self._calls.note("tool_tag_unclosed")
        self._source.at = at + len(tag or "")
        self._place = Place.BODY

    def _read_json(self, json: JsonInput) -> bool:
        json.read()
        if json.state is State.BROKEN:
            self.state = State.BROKEN
        if json.state is not State.DONE:
            return False
        self._has_json = True
        self._place = Place.BODY
        return True

    def _end_call(self, *, is_closed: bool) -> None:
        if not is_closed:
            self._calls.note("tool_tag_unclosed")
        if self._has_tags:
            self._calls.take([(Kind.CLOSE, "}")])
        self._calls.close()
        self.state = State.DONE


def _space_end(text: str, at: int) -> int:
    space = SPACE.match(text, at)
    return space.end() if space else at
