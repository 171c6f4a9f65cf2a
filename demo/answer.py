"""Decide what is answered: from the script, the markers in the prompt, or the question itself.

Pure: a dialect writes the `Answer` down, `demo/play.py` sends it.

Markers, for tests that go through a client which writes its own prompts (any user message may hold them):

    <<TOOL {"name": "Bash", "input": {"command": "ls"}}>>   several give parallel calls in one answer
    <<FINAL text>>                                          the text once the tools' results are there
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, zip_longest
from typing import Any

import orjson

from demo.ask import Ask, Tool
from demo.sample import WORDS, count_tokens, example, split_words, with_tokens
from demo.script import Script
from demo.sight import colour_of
from demo.told import FORMS

TOOL_MARKER = re.compile(r"<<TOOL (\{.*?\})>>", re.DOTALL)
FINAL_MARKER = re.compile(r"<<FINAL (.*?)>>", re.DOTALL)
#: The names that the benchmark's upstream understands too: N frames, D milliseconds between them.
MOCK_MODEL = re.compile(r"mock-n(\d+)-d(\d+)")
VERBS = r"(?i:use|using|call|invoke|run)"
ONLY_TOOL = re.compile(rf"\b{VERBS} the only tool\b")
DEMANDED = re.compile(r"(?i:answer with the word) [`\"'“]?(\w+)")
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
#: Characters of the question that an answer repeats; characters of one piece of arguments.
MAX_ECHO = 400
ARGUMENT_PIECE = 12
SPEAKING_GAP_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call: `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one frame adds: `kind` is reasoning, text, or call."""

    kind: str
    text: str
    tokens: int
    #: Of a call: its place among the calls.
    call: int = 0
    #: Of a call: this piece opens it, with no arguments yet.
    opens: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, in the order in which it streams."""

    pieces: Sequence[Piece]
    calls: Sequence[Call] = ()
    #: In chat/completions' words: stop, length, tool_calls.
    finish: str = "stop"
    #: The stop sequence that ended the text.
    stopped_by: str | None = None
    gap_s: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0

    @property
    def output_tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    @property
    def reasoning_tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces if piece.kind == "reasoning")

    def joined(self, kind: str) -> str:
        return "".join(piece.text for piece in self.pieces if piece.kind == kind)


#: The words of a text, made once: an answer of many must not keep its first byte waiting.
SPOKEN = [Piece(kind="text", text=f"{word} ", tokens=1) for word in WORDS]


def decide(ask: Ask, script: Script | None) -> Answer:
    """Choose the answer; input and cached tokens are the caller's to fill."""
    answer = _decide(ask, script)
    return _in_text(answer, script.form if script else "hermes") if ask.calls_in_text else answer


def _in_text(answer: Answer, form: str) -> Answer:
    """Write the calls into the text, as a model does that has none of its own."""
    spoken = [piece for piece in answer.pieces if piece.kind != "call"]
    text = "".join(FORMS[form](call.name, call.arguments) for call in answer.calls)
    cut = (text[at : at + ARGUMENT_PIECE] for at in range(0, len(text), ARGUMENT_PIECE))
    told = [Piece(kind="text", text=part, tokens=tokens) for part, tokens in with_tokens(cut)]
    finish = "stop" if answer.finish == "tool_calls" else answer.finish
    return replace(answer, pieces=[*spoken, *told], calls=(), finish=finish)


def _decide(ask: Ask, script: Script | None) -> Answer:
    if match := MOCK_MODEL.search(ask.model):
        frames, gap_ms = map(int, match.groups())
        return Answer(pieces=[Piece(kind="text", text="word ", tokens=1)] * frames, gap_s=gap_ms / 1000)
    if script is not None and not script.is_plain:
        return _scripted(ask, script)
    calls = _marked_calls(ask) or _asked_calls(ask)
    if calls:
        return _with_calls(calls, reasoning=_reasoning(ask), gap_s=SPEAKING_GAP_S / 2)
    return _spoken(ask)


def _scripted(ask: Ask, script: Script) -> Answer:
    pieces: list[Piece] = []
    if script.think or ask.wants_reasoning:
        pieces += _pieces("reasoning", "Let me look at this from one side and then from the other. ")
    calls = _marked_calls(ask) if not script.tools else _invented_calls(ask, script.tools)
    if script.size:
        size = script.size
        pieces += [Piece(kind="text", text="x" * size, tokens=count_tokens(size))] * (script.frames or 10)
    elif script.text is not None:
        pieces += _pieces("text", script.text)
    elif script.frames is not None or not calls:
        final = _final(ask) if script.frames is None else None
        pieces += _pieces("text", final) if final else islice(cycle(SPOKEN), script.frames or 10)
    pieces += _call_pieces(calls, interleaved=script.interleaved)
    finish = script.finish or ("tool_calls" if calls else "stop")
    return Answer(pieces=pieces, calls=calls, finish=finish, gap_s=0.0)


def _spoken(ask: Ask) -> Answer:
    reasoning = _pieces("reasoning", _reasoning(ask))
    text, stopped_by = _stopped(_text(ask), ask.stop)
    pieces = [*reasoning, *_pieces("text", text)]
    kept = list(_within(pieces, ask.max_tokens))
    finish = "stop" if len(kept) == len(pieces) else "length"
    return Answer(pieces=kept, finish=finish, stopped_by=stopped_by if finish == "stop" else None, gap_s=SPEAKING_GAP_S)


def _text(ask: Ask) -> str:
    question = _question(ask)
    if ask.schema is not None:
        return orjson.dumps(example(ask.schema, _quoted(question) or [question[:60]])).decode()
    if final := _final(ask):
        return final
    if found := _demanded_word(ask):
        return found
    if ask.turns and ask.turns[-1].role == "tool":
        return f"The tool answered: {_shortened(ask.turns[-1].text) or 'nothing at all'}"
    if not question:
        return "You sent no words, so here are some of mine."
    return _pictures(ask) + (
        f"You said: “{question}” I am Bridge's demo upstream: no model thinks here, but the way there and back works."
    )


def _demanded_word(ask: Ask) -> str:
    """Find the word that the client's last turns, or the system's, want for an answer."""
    spoken = max((place for place, turn in enumerate(ask.turns) if turn.role == "assistant"), default=-1)
    heard = [turn.text for place, turn in enumerate(ask.turns) if turn.role == "system" or place > spoken]
    return next((found[1] for text in reversed(heard) if (found := DEMANDED.search(text))), "")


def _pictures(ask: Ask) -> str:
    colours = [colour_of(image) for image in ask.turns[ask.last_user_turn()].images]
    return "".join(f"I see a picture: {colour or 'I can not tell which'}. " for colour in colours)


def _question(ask: Ask) -> str:
    place = ask.last_user_turn()
    return _shortened(REMINDER.sub("", ask.turns[place].text)) if place >= 0 else ""


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_ECHO else text[: MAX_ECHO - 1] + "…"


def _reasoning(ask: Ask) -> str:
    if not ask.wants_reasoning:
        return ""
    return f"The question is “{_question(ask)[:80]}”. I read it, look at what I am offered, and answer briefly. "


def _stopped(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    found = [(text.index(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return text, None
    place, stop = min(found)
    return text[:place], stop


def _within(pieces: Sequence[Piece], max_tokens: int | None) -> Iterator[Piece]:
    left = max_tokens
    for piece in pieces:
        if isinstance(left, int) and piece.tokens > left:
            return
        yield piece
        left = left - piece.tokens if isinstance(left, int) else None


def _marked_turn(ask: Ask) -> int:
    """Give the place of the last user message with a marker; -1 when there is none."""
    marked = [n for n, turn in enumerate(ask.turns) if turn.role == "user" and "<<" in turn.text and ">>" in turn.text]
    return marked[-1] if marked else -1


def _marked_calls(ask: Ask) -> list[Call]:
    place = _marked_turn(ask)
    if place < 0 or any(turn.role == "tool" for turn in ask.turns[place:]):
        return []
    offered = {tool.name for tool in ask.tools}
    wanted = [orjson.loads(text) for text in TOOL_MARKER.findall(ask.turns[place].text)]
    return [_call(item["name"], item.get("input", {})) for item in wanted if item.get("name") in offered]


def _final(ask: Ask) -> str | None:
    place = _marked_turn(ask)
    found = FINAL_MARKER.findall(ask.turns[place].text) if place >= 0 else []
    return found[-1] if found else None


def _asked_calls(ask: Ask) -> list[Call]:
    """Call the tool that the client forces, or those that the question names."""
    if ask.tool_choice == "none" or not ask.tools or ask.schema or not ask.turns or ask.turns[-1].role == "tool":
        return []
    question = _question(ask)
    forced = [tool for tool in ask.tools if tool.name == ask.tool_choice]
    named = [tool for tool in ask.tools if _is_asked_for(tool, question)]
    only = ask.tools if len(ask.tools) == 1 and ONLY_TOOL.search(question) else []
    chosen = forced or named or only or (ask.tools[:1] if ask.tool_choice == "required" else [])
    return [_call(tool.name, example(tool.schema, _quoted(question))) for tool in chosen[: None if ask.parallel else 1]]


def _is_asked_for(tool: Tool, question: str) -> bool:
    """Only plain words count: "write a poem" must not call a tool that is named Write."""
    return re.search(rf"\b{VERBS}(?i:\s+the)?(?i:\s+tool)?\s+[`\"'“]?{re.escape(tool.name)}\b", question) is not None


def _invented_calls(ask: Ask, count: int) -> list[Call]:
    tools = ask.tools or [Tool(name="lookup", schema={"properties": {"word": {"type": "string"}}})]
    return [_call(tool.name, example(tool.schema, [f"item {n}"])) for n, tool in enumerate(islice(cycle(tools), count))]


def _quoted(text: str) -> list[str]:
    """Find what stands in quotes or backticks, else the last word with a capital."""
    quoted = [found for groups in re.findall(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`|“([^”]+)”", text) for found in groups]
    return [item for item in quoted if item] or re.findall(r"(?<!^)\b[A-Z][\w-]+", text)[-1:]


def _call(name: str, arguments: Any) -> Call:
    return Call(id=f"call_{secrets.token_hex(12)}", name=name, arguments=orjson.dumps(arguments).decode())


def _with_calls(calls: Sequence[Call], *, reasoning: str, gap_s: float) -> Answer:
    pieces = [*_pieces("reasoning", reasoning), *_call_pieces(calls, interleaved=False)]
    return Answer(pieces=pieces, calls=calls, finish="tool_calls", gap_s=gap_s)


def _pieces(kind: str, text: str) -> list[Piece]:
    return [Piece(kind=kind, text=part, tokens=tokens) for part, tokens in with_tokens(split_words(text))]


def _call_pieces(calls: Sequence[Call], *, interleaved: bool) -> list[Piece]:
    rows = [list(_pieces_of_call(call, number)) for number, call in enumerate(calls)]
    if not interleaved:
        return [piece for row in rows for piece in row]
    opening = [row[0] for row in rows]
    return opening + [piece for turn in zip_longest(*(row[1:] for row in rows)) for piece in turn if piece is not None]


def _pieces_of_call(call: Call, number: int) -> Iterator[Piece]:
    yield Piece(kind="call", text="", tokens=count_tokens(len(call.name)), call=number, opens=True)
    cut = [call.arguments[at : at + ARGUMENT_PIECE] for at in range(0, len(call.arguments), ARGUMENT_PIECE)]
    for text, tokens in with_tokens(iter(cut)):
        yield Piece(kind="call", text=text, tokens=tokens, call=number)


def with_input(answer: Answer, *, input_tokens: int, cached_tokens: int) -> Answer:
    return replace(answer, input_tokens=input_tokens, cached_tokens=cached_tokens)
