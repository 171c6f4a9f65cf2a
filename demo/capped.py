"""Answers that end after so many frames, and follow-ups that go on where the text in the request ends."""

from collections.abc import Sequence
from dataclasses import replace

from demo.answer import Answer, Piece
from demo.ask import Ask
from demo.script import Script

#: Stands in the words of whoever asks to go on.
ASKED_TO_GO_ON = "<end>"


def said_before(ask: Ask) -> str:
    """Return the beginning of the answer that the request holds; empty when it holds none."""
    turns = ask.turns
    if turns and turns[-1].role == "assistant":
        return turns[-1].text
    if len(turns) > 1 and turns[-2].role == "assistant" and ASKED_TO_GO_ON in turns[-1].text:
        return turns[-2].text
    return ""


def capped(answer: Answer, ask: Ask, script: Script) -> tuple[Answer, Script]:
    """Cut the answer to what this call gives of it; also return the script, whose faults may be for a later one."""
    cap = script.cap
    if cap is None:
        return answer, script
    said = said_before(ask)
    done, rest = _rest(answer.pieces, said)
    if script.lasts is not None and done < script.lasts * cap:
        script = replace(script, fault=None, status=200)
    repeated = said[-script.repeats :] if said and script.repeats else ""
    again = [Piece(kind="text", text=repeated, tokens=1)] if repeated else []
    finish = "length" if len(rest) > cap else answer.finish
    return replace(answer, pieces=[*again, *rest[:cap]], finish=finish), script


def _rest(pieces: Sequence[Piece], said: str) -> tuple[int, Sequence[Piece]]:
    """Return how many pieces were said, and those that weren't."""
    left = len(said)
    for place, piece in enumerate(pieces):
        if left < len(piece.text) or piece.kind != "text":
            return place, [replace(piece, text=piece.text[left:]), *pieces[place + 1 :]]
        left -= len(piece.text)
    return len(pieces), []
