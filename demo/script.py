"""The mini language that tells the upstream how to misbehave: `script/WORD,WORD=VALUE,...` as a model name.

    script/ok,frames=40,gap=20ms      a good answer of 40 frames, one token each
    script/cut,frame=7                the connection closes after 7 frames of output
    script/status=429,retry_after=7   an error in place of an answer

One word at most names a fault; the others say how the answer looks. `demo/README.md` lists them all.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote_plus

from demo.told import FORMS

PREFIX = "script/"


class ScriptError(ValueError):
    """A word of the script isn't known, or its value makes no sense."""


class Fault(Enum):
    """What goes wrong, and so how the answer ends."""

    #: The socket closes before the body ended.
    CUT = "cut"
    #: The same, with a TCP reset.
    RESET = "reset"
    #: HTTP ends as it should; the answer inside doesn't.
    EOF = "eof"
    #: No byte any more, for as long as the client waits.
    SILENT = "silent"
    #: All is sent, then a TCP reset comes in place of HTTP's end.
    RESET_AT_CLOSE = "reset_at_close"
    #: Comment lines only, for ever or for some time.
    PINGS = "pings"
    #: A frame with an error object, then the end.
    ERROR_FRAME = "errorframe"
    #: One frame that is no JSON, no UTF-8, or far too big; the others go on.
    MALFORMED = "malformed"
    BAD_UTF8 = "badutf8"
    BIG_FRAME = "bigframe"
    #: Status 200, and no answer in it.
    ERROR_200 = "error200"
    HTML = "html"
    EMPTY = "empty"
    GZIP_BOMB = "gzipbomb"


#: Faults that come in the middle of a stream, and so need to know where.
MID_STREAM = {
    Fault.CUT, Fault.RESET, Fault.EOF, Fault.SILENT, Fault.ERROR_FRAME, Fault.MALFORMED, Fault.BAD_UTF8,
    Fault.BIG_FRAME,
}  # fmt: skip
#: What a model may not hear of; what it may refuse.
DEAF_TO = ("tools", "choice", "parallel", "stop", "limit", "thinking")
REFUSED = ("images", "tools")
#: Where a fault that must be somewhere in the stream comes when the script doesn't say.
USUAL_FRAME = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """How one call is answered. Without any word: a good answer that fits what was asked."""

    fault: Fault | None = None
    #: The fault comes once so many frames with output have been sent.
    frame: int | None = None
    #: The fault comes once so many bytes of the body have been sent.
    byte: int | None = None

    #: A text of so many frames, one token each; None: a text that fits the question.
    frames: int | None = None
    #: Characters of each of those frames, in place of one word.
    size: int | None = None
    text: str | None = None
    #: The field that carries reasoning (`reasoning_content`, `reasoning`); None: none unless asked for.
    think: str | None = None
    #: How many tools are called in the answer.
    tools: int = 0
    #: The arguments of parallel calls come in turns.
    interleaved: bool = False
    #: What was asked is answered, as without a script.
    plain: bool = False
    #: The same, by a model that doesn't hear of one thing, or by one that refuses it.
    deaf: str | None = None
    refuses: str | None = None
    #: How calls are written where the tools are told in words.
    form: str = "hermes"
    finish: str | None = None
    #: The answer ends after so many frames, and goes on in a call that holds them. A fault comes after `lasts` such calls.
    cap: int | None = None
    lasts: int | None = None
    #: So many characters of its end are repeated then.
    repeats: int = 0

    #: Seconds before the first byte, between frames, between single bytes.
    wait: float = 0.0
    gap: float | None = None
    drip: float | None = None

    status: int = 200
    message: str | None = None
    error_type: str | None = None
    code: str | None = None
    retry_after: str | None = None
    redirect: str | None = None
    #: Bytes of the big frame; comments before the answer (None: for ever); megabytes that the bomb grows to.
    bigframe: int = 2 * 1024 * 1024
    pings: int | None = None
    gzipbomb: int = 100

    #: What the usage frame claims as output tokens; None: the truth.
    usage: int | str | None = None
    nousage: bool = False
    #: What it claims as cached input tokens; None: what the prefix memory says.
    cached: int | None = None
    nodone: bool = False
    nofinish: bool = False
    crlf: bool = False
    #: Every byte is a chunk of its own.
    bytes: bool = False
    #: A JSON body for a streaming request; a stream for a whole one.
    json: bool = False
    sse: bool = False
    #: Of so many calls (the second number) the first ones (the first number) fail.
    flap: tuple[int, int] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the answer is the one without a script."""
        return self.plain or self.deaf is not None or self.refuses is not None

    def is_before_head(self) -> bool:
        """Say whether the fault comes in place of the whole answer."""
        return self.fault in (Fault.CUT, Fault.RESET, Fault.SILENT) and self.frame is None and self.byte is None


def parse_script(text: str) -> Script:
    """Read `WORD,WORD=VALUE,...`, with or without the `script/` before it.

    Raises:
        ScriptError: A word isn't known, or its value makes no sense.
    """
    found: dict[str, object] = {}
    for item in text.removeprefix(PREFIX).split(","):
        word, _, value = item.strip().partition("=")
        found |= _read_word(word, unquote_plus(value))
    fault = found.get("fault")
    if fault in MID_STREAM - {Fault.CUT, Fault.RESET, Fault.SILENT} and "byte" not in found:
        found.setdefault("frame", USUAL_FRAME)
    return Script(**found)  # type: ignore[arg-type]  # the table below gives each field its type


def _read_word(word: str, value: str) -> dict[str, object]:
    found: dict[str, object] = {}
    if word in FAULTS:
        found["fault"] = FAULTS[word]
    value = value or BARE.get(word, "")
    if value:
        field = FIELD_OF.get(word, word)
        if field not in VALUES:
            msg = f"no word that takes a value: {word!r}"
            raise ScriptError(msg)
        try:
            found[field] = VALUES[field](value)
        except ValueError as exc:
            msg = f"{word}={value}: {exc}"
            raise ScriptError(msg) from exc
    elif word in FLAGS:
        found[word] = True
    elif word not in FAULTS and word not in ("ok", ""):
        msg = f"unknown word, or its value is missing: {word!r}"
        raise ScriptError(msg)
    return found


def seconds(text: str) -> float:
    """Read `20ms`, `1.5s` or plain seconds."""
    if text.endswith("ms"):
        return float(text[:-2]) / 1000
    return float(text.removesuffix("s"))


def _share(text: str) -> tuple[int, int]:
    failing, _, of = text.partition("/")
    return int(failing), int(of)


def _one_of(words: Collection[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            msg = f"none of {', '.join(words)}"
            raise ValueError(msg)
        return text

    return read


def _number_or_text(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


FAULTS = {fault.value: fault for fault in Fault}
FLAGS = {"plain", "interleaved", "nousage", "nodone", "nofinish", "crlf", "bytes", "json", "sse"}
#: Words whose value fills a field of another name.
FIELD_OF = {"error200": "code", "errorframe": "code"}
VALUES: dict[str, Callable[[str], object]] = {
    "frame": int, "byte": int, "frames": int, "size": int, "text": str, "think": str, "tools": int, "finish": str,
    "cap": int, "lasts": int, "repeats": int,
    "wait": seconds, "gap": seconds, "drip": seconds, "status": int, "message": str, "error_type": str, "code": str,
    "retry_after": str, "redirect": str, "bigframe": int, "pings": int, "gzipbomb": int, "usage": _number_or_text,
    "cached": int, "flap": _share, "form": _one_of(FORMS), "deaf": _one_of(DEAF_TO), "refuses": _one_of(REFUSED),
}  # fmt: skip
#: What a word that may stand alone means then.
BARE = {"think": "reasoning_content", "tools": "1", "drip": "500ms", "flap": "3/10"}
