"""Texts of models for the tests: fed whole, in pieces, and one character at a time."""

import json
from typing import Any

from translator.core.emulation.calls import Part, Piece, Tools
from translator.core.emulation.detector import Detector

__all__ = ["SCHEMAS", "Told", "read", "read_all_ways"]

SCHEMAS: dict[str, dict[str, Any]] = {
    "Read": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    },
    "Bash": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}, "background": {"type": "boolean"}},
        "required": ["command"],
    },
    "list-files": {"type": "object", "properties": {}},
}

#: What came of a text: texts, calls as (name, input), and the notes.
type Told = tuple[list[Any], list[str]]


def read(text: str, *, step: int | None = None, is_truncated: bool = False) -> tuple[list[Any], list[str], Detector]:
    """Return what a text is told as, the notes, and the detector."""
    detector = Detector(Tools(SCHEMAS))
    step = step or max(1, len(text))
    pieces = [piece for at in range(0, len(text), step) for piece in detector.feed(text[at : at + step])]
    pieces += detector.finish(is_truncated=is_truncated)
    return put_together(pieces), sorted(detector.calls.notes), detector


def read_all_ways(text: str, *, is_truncated: bool = False) -> Told:
    """Return what a text is told as, however it is cut."""
    told, notes, _ = read(text, is_truncated=is_truncated)
    for step in (1, 2, 3, 7):
        assert read(text, step=step, is_truncated=is_truncated)[:2] == (told, notes), step
    return told, notes


def put_together(pieces: list[Piece]) -> list[Any]:
    """Return texts, and calls as (name, input); the input of one that did not end is its text."""
    told: list[Any] = []
    name, inputs = "", None
    for part, text in pieces:
        match part:
            case Part.TEXT:
                assert inputs is None, "text within a call"
                told[-1:] = [told[-1] + text] if told and isinstance(told[-1], str) else [*told[-1:], text]
            case Part.CALL:
                assert inputs is None, "a call within a call"
                name, inputs = text, ""
            case Part.INPUT:
                assert inputs is not None
                inputs += text
            case Part.STOP:
                assert inputs is not None
                told.append((name, loaded(inputs)))
                inputs = None
    return told if inputs is None else [*told, (name, inputs)]


def loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
