"""Where in prose a call may begin: not within code, and JSON only at the beginning of a line.

Source: https://spec.commonmark.org/0.31.2 (fenced code, code spans). Taken as simpler than they are: a code span ends with its
line, and a fence ends with any line that begins with as many backticks as it did.
"""

import re
from enum import Enum

from translator.core.emulation.marks import INVENTED, OPENERS
from translator.core.emulation.region import Form

__all__ = ["Prose", "Sight"]

#: Where something may begin or end.
SPOT = re.compile(r"[<`\n{\[]")
TICKS = re.compile(r"`+")
#: What a fence with calls is called.
LANGUAGES = ("", "json", "json5", "jsonc", "tool_call", "tool_calls", "tool_code", "tool", "function_call")
CALL_FENCE = re.compile(r"`{3,}[ \t]{0,9}([A-Za-z_0-9]{0,20})[ \t]{0,9}\r?\n\s{0,99}(?:\{|\[\s{0,99}\{)")
CALL_FENCE_BEGUN = re.compile(r"`{3,}[ \t]{0,9}([A-Za-z_0-9]{0,20})([ \t]{0,9}(?:\r?\n\s{0,99}(?:\[\s{0,99})?|\r)?)")
LIST = re.compile(r"\[\s{0,99}\{")
LIST_BEGUN = re.compile(r"\[\s{0,99}")


class Sight(Enum):
    """What is seen at a place of the text, beside the forms of calls."""

    TEXT = "text"
    #: More text is needed to tell.
    UNCLEAR = "unclear"
    #: A result of the model's own making.
    INVENTED = "invented"


class Prose:
    """Reads text, and knows whether it is in code."""

    def __init__(self) -> None:
        """Start at the beginning of a line."""
        #: Whether anything but white space was read.
        self.has_words = False
        self._is_line_blank = True
        #: Backticks of the fence and of the code span that the text is in.
        self._fence = 0
        self._code = 0

    def resume(self) -> None:
        """Go on after a call, which ends whatever it stood in."""
        self._is_line_blank, self._code, self._fence = True, 0, 0

    def read(self, text: str, at: int, *, blind_to: int, has_calls: bool, is_last: bool) -> tuple[int, Form | Sight]:
        """Read on to where something may begin; return where that is, and what; `TEXT` at the end of the text.

        Args:
            text: What is there.
            at: Where to begin.
            blind_to: Up to where no call is looked for.
            has_calls: Whether the answer has calls, so that the model may invent their results.
            is_last: Whether no more text will come.
        """
        while at < len(text):
            spot = SPOT.search(text, at)
            plain_end = spot.start() if spot else len(text)
            self._pass_plain(text[at:plain_end])
            at = plain_end
            if spot is None:
                break
            end = at + 1
            if text[at] == "`":
                end = _end(TICKS, text, at)
                if end == len(text) and not is_last:
                    return at, Sight.UNCLEAR
            sight = self._look(text, at, has_calls=has_calls) if at >= blind_to else Sight.TEXT
            if sight is Sight.UNCLEAR and is_last:
                sight = Sight.TEXT
            if sight is not Sight.TEXT:
                return at, sight
            self._pass_spot(text[at:end])
            at = end
        return at, Sight.TEXT

    def _look(self, text: str, at: int, *, has_calls: bool) -> Form | Sight:
        """Tell what may begin at a character."""
        if self._fence or self._code:
            return Sight.TEXT
        character = text[at]
        if character in "<[":
            seen = _mark_at(text, at, has_calls=has_calls)
            if seen is not Sight.TEXT:
                return seen
        if not self._is_line_blank:
            return Sight.TEXT
        match character:
            case "{":
                return Form.BARE
            case "[":
                return _list_at(text, at)
            case "`":
                return _fence_at(text, at)
            case _:
                return Sight.TEXT

    def _pass_plain(self, text: str) -> None:
        if text and not text.isspace():
            self._is_line_blank = False
            self.has_words = True

    def _pass_spot(self, spot: str) -> None:
        if spot == "\n":
            self._is_line_blank, self._code = True, 0
            return
        self.has_words = True
        if spot[0] == "`":
            self._pass_ticks(len(spot))
        self._is_line_blank = False

    def _pass_ticks(self, count: int) -> None:
        if self._fence:
            if self._is_line_blank and count >= self._fence:
                self._fence = 0
        elif self._is_line_blank and count >= 3:
            self._fence = count
        elif self._code == count:
            self._code = 0
        elif not self._code:
            self._code = count


def _mark_at(text: str, at: int, *, has_calls: bool) -> Form | Sight:
    if OPENERS.at(text, at):
        return Form.MARK
    if has_calls and INVENTED.at(text, at):
        return Sight.INVENTED
    is_unclear = OPENERS.may_begin(text, at) or (has_calls and INVENTED.may_begin(text, at))
    return Sight.UNCLEAR if is_unclear else Sight.TEXT


def _list_at(text: str, at: int) -> Form | Sight:
    if LIST.match(text, at):
        return Form.BARE
    return Sight.UNCLEAR if LIST_BEGUN.fullmatch(text, at) is not None else Sight.TEXT


def _fence_at(text: str, at: int) -> Form | Sight:
    if found := CALL_FENCE.match(text, at):
        return Form.FENCE if found[1].lower() in LANGUAGES else Sight.TEXT
    begun = CALL_FENCE_BEGUN.fullmatch(text, at)
    if begun is None:
        return Sight.TEXT
    language, is_whole = begun[1].lower(), bool(begun[2])
    fits = language in LANGUAGES if is_whole else any(known.startswith(language) for known in LANGUAGES)
    return Sight.UNCLEAR if fits else Sight.TEXT


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
