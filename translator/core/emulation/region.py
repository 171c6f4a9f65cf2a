"""A place in the text where calls stand: from the mark that begins it to whatever is no part of it.

Within it come calls of any form, white space, further marks and closing ones. A place is a call's only when a tool was named
in it that the request offers; else all of it is text, marks included.
"""

import re
from enum import Enum
from typing import Protocol

from translator.core.emulation.calls import Calls, State
from translator.core.emulation.json_calls import JsonCalls, JsonInput
from translator.core.emulation.marks import BAR, CLOSERS, HEADS, LOW_LINE, NOISE
from translator.core.emulation.source import Source
from translator.core.emulation.tag_calls import TagCall

__all__ = ["Form", "Region"]

#: Characters of a call that may have to be text after all.
MAX_HELD = 1_048_576
#: Characters of a name with the marks around it, at most.
MAX_NAME = 300

SPACE = re.compile(r"\s*")
#: The first line of a fence, and a fence within a call's marks.
FENCE = re.compile(r"`{3,}[ \t]*[A-Za-z_0-9]*")
INNER_FENCE = re.compile(r"`{3,}(?:json)?\s*(?=[\[{])")
INNER_FENCE_BEGUN = re.compile(r"`+(?:j(?:s(?:o(?:n)?)?)?)?\s*")
TICKS = re.compile(r"`+")
#: A name before its arguments, as Mistral, DeepSeek, Kimi and GLM write it; and as much of that as has come.
SEPARATOR = rf"<[{BAR}|]tool[{LOW_LINE}_ ](?:sep|call_argument_begin)[{BAR}|]>"
NAMED = re.compile(
    rf"(?:function\s*{SEPARATOR}\s*)?([\w.:/-]+)\s*(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\]|{SEPARATOR})?\s*"
    r"(```(?:json)?\s*)?(?=\{|<arg_key>)"
)
NAMED_BEGUN = re.compile(
    r"(?:function\s*<[^<>\n]{0,40}>\s*)?[\w.:/-]*\s*(?:\[[A-Z_]{0,9}(?:\][\w-]*(?:\[[A-Z]*\]?)?)?|<[^<>\n]{0,40}>?)?\s*"
    r"(?:`{1,3}[a-z]{0,4}\s*)?"
)


class Form(Enum):
    """What began a place."""

    #: A mark that models use for nothing else.
    MARK = "mark"
    #: A code fence with JSON in it.
    FENCE = "fence"
    #: JSON at the beginning of a line.
    BARE = "bare"


class Reader(Protocol):
    """What reads one call, or one value with calls."""

    state: State

    def read(self) -> None: ...
    def end(self) -> None: ...


class Region:
    """Reads one such place."""

    def __init__(self, source: Source, calls: Calls, form: Form, *, is_example: bool = False) -> None:
        """Start at the mark.

        Args:
            source: The text.
            calls: Where to tell the calls.
            form: What the mark is.
            is_example: Whether it may be an example in the middle of an explanation, so that what follows decides.
        """
        self.state = State.READING
        self.form = form
        self.is_example = is_example
        #: What was told before.
        self.begun_at = calls.mark
        self._source = source
        self._calls = calls
        self._reader: Reader | None = None
        #: Whether the arguments make no sense, and their end is looked for.
        self._is_lost = False
        #: Whether a code fence is open, and whether that of an example was closed.
        self._is_fenced = form is Form.FENCE
        self._is_closed = False
        #: Whether a name may come that stands before its arguments.
        self._may_name = False
        source.call.start(source.at)
        source.call.is_pinned = is_example
        if form is Form.FENCE:
            source.at = _end(FENCE, source.text, source.at)

    @property
    def has_calls(self) -> bool:
        """Whether a call was told."""
        return self._calls.count > self.begun_at[0]

    def read(self) -> None:
        """Read on as far as the text goes."""
        while self.state is State.READING and self._step():
            pass
        if self.state is State.READING and max(self._source.call.size, self._source.input.size) > MAX_HELD:
            self._give_up()

    def end(self, *, is_truncated: bool) -> None:
        """End at the end of the text, all of which was read.

        Args:
            is_truncated: Whether the upstream ran out of tokens.
        """
        if self._is_lost:
            self._close_lost(len(self._source.text))
        elif self._calls.is_open and is_truncated and not self.is_example:
            self._calls.cut()
        elif self._reader is not None and not is_truncated:
            self._reader.end()
            self._follow(self._reader.state)
        if self._is_lost:
            self._close_lost(len(self._source.text))
        if self.state is State.READING:
            self.state = State.DONE if self.has_calls and not self._calls.is_open else State.REJECTED

    def _step(self) -> bool:
        """Read one thing; return False where more text is needed."""
        if self._is_lost:
            return self._look_for_end()
        if self._reader is not None:
            self._reader.read()
            return self._follow(self._reader.state)
        source = self._source
        source.at = _end(SPACE, source.text, source.at)
        if source.is_read:
            return False
        if self._is_closed:
            # A fence with calls was an example if the explanation goes on.
            self.state = State.DONE if source.text[source.at] in "<`{[" else State.REJECTED
            return False
        return self._read_between()

    def _follow(self, state: State) -> bool:
        """Go on after what a reader has come to."""
        match state:
            case State.READING:
                return False
            case State.DONE:
                self._reader = None
                if self._calls.is_open:
                    self._calls.close()
            case State.REJECTED:
                self._give_up()
            case State.BROKEN if self._calls.is_sent or self.is_example:
                self.state = State.BROKEN
            case _:
                self._reader = None
                self._is_lost = True
        return True

    def _give_up(self) -> None:
        self._reader = None
        self.state = State.BROKEN if self._calls.is_open else State.REJECTED

    def _read_between(self) -> bool:
        """Read what stands between calls, up to the next."""
        source = self._source
        text, at = source.text, source.at
        if HEADS.at(text, at):
            self._begin(TagCall(source, self._calls))
        elif noise := NOISE.at(text, at):
            source.at += len(noise)
            self._may_name = not noise.startswith("</")
        elif not source.is_last and (NOISE.may_begin(text, at) or HEADS.may_begin(text, at)):
            return False
        elif text[at] == "`":
            return self._read_fence()
        elif text[at] in "{[":
            self._begin_json()
        elif self.has_calls and text[at] in "}],;":
            source.at += 1
        else:
            return self._read_name()
        return True

    def _begin(self, reader: Reader) -> None:
        self._mark()
        self._reader = reader

    def _mark(self) -> None:
        """Remember that calls before this place stay calls, whatever comes."""
        self._may_name = False
        if self.has_calls:
            self._source.call.start(self._source.at)

    def _begin_json(self) -> None:
        self._begin(JsonCalls(self._source, self._calls, is_doubtful=self.form is not Form.MARK))

    def _read_fence(self) -> bool:
        source = self._source
        if self._is_fenced:
            end = _end(TICKS, source.text, source.at)
            if end == len(source.text) and not source.is_last:
                return False
            source.at, self._is_fenced = end, False
            return self.form is not Form.FENCE or self._close_fence()
        inner = INNER_FENCE.match(source.text, source.at) if self.form is Form.MARK and not self.has_calls else None
        if inner is not None:
            source.at, self._is_fenced = inner.end(), True
            return True
        is_begun = INNER_FENCE_BEGUN.fullmatch(source.text, source.at) is not None
        if is_begun and not source.is_last and not self.has_calls:
            return False
        return self._leave()

    def _close_fence(self) -> bool:
        self._is_closed = self.is_example and self.has_calls
        return self.has_calls or self._leave()

    def _read_name(self) -> bool:
        """Read a name that its arguments follow, as some models write it after their marks."""
        source = self._source
        if not self._may_name:
            return self._leave()
        # No further than a name can reach: blanks without end would be gone over again and again.
        found = NAMED.match(source.text, source.at, source.at + MAX_NAME + len("<arg_key>"))
        if found is not None and found.end() - source.at <= MAX_NAME:
            return self._begin_named(found)
        is_short = len(source.text) - source.at < MAX_NAME and not source.is_last
        if is_short and NAMED_BEGUN.fullmatch(source.text, source.at):
            return False
        return self._leave()

    def _begin_named(self, found: re.Match[str]) -> bool:
        self._mark()
        if not self._calls.open(found[1]):
            self._give_up()
            return False
        self._source.call.stop()
        self._is_fenced = found[2] is not None
        self._source.at = found.end()
        if self._source.text[found.end()] == "{":
            self._reader = JsonInput(self._source, self._calls)
        else:
            self._source.input.start(found.end())
            self._reader = TagCall(self._source, self._calls, is_named=True)
        return True

    def _leave(self) -> bool:
        """End before what is no part of it."""
        self.state = State.DONE if self.has_calls else State.REJECTED
        return False

    def _look_for_end(self) -> bool:
        """Look for the end of a call whose arguments make no sense."""
        source = self._source
        at = CLOSERS.find(source.text, source.at)
        if at < 0:
            source.at = max(source.at, len(source.text) - MAX_NAME)
            return False
        self._close_lost(at)
        return True

    def _close_lost(self, at: int) -> None:
        self._source.at = at
        self._calls.close_invalid(self._source.input.kept(self._source.text, at))
        self._source.input.stop()
        self._is_lost = False


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
