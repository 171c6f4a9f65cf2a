"""The unit that a dialect hands to the player: bytes of one frame, and what they are worth."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from demo.answer import Answer
from demo.ask import Ask
from demo.script import Script

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One server-sent event, written out."""

    data: bytes
    #: Output tokens that it carries.
    tokens: int = 0
    #: It carries some of the answer: `frame=N` in a script counts these.
    is_output: bool = False
    #: It carries the final usage.
    has_usage: bool = False
    #: Nothing of the answer comes after it.
    is_end: bool = False
    #: A script may cut a frame in two.
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error that the upstream reports, before any dialect."""

    status: int
    message: str
    type: str
    code: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One wire format: how to read a call and how to write each kind of answer."""

    name: str
    read: Callable[[JSON], Ask]
    frames: Callable[[Answer, Ask, Script], Iterator[Frame]]
    whole: Callable[[Answer, Ask, Script], JSON]
    error: Callable[[Failure], JSON]
    error_frame: Callable[[Failure], bytes]


def data_frame(payload: JSON) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(payload)


def event_frame(payload: JSON) -> bytes:
    """Write an event whose name is the payload's type."""
    return b"event: %b\ndata: %b\n\n" % (payload["type"].encode(), orjson.dumps(payload))
