"""A chat answer in the shape that was asked for: a stream as one body, or one body as a stream.

Some upstreams always stream, and some never do; OpenAI's SDKs read nothing of the shape that they didn't ask for.

Source: https://platform.openai.com/docs/api-reference/chat/object and /chat-streaming (read 2026-12-01).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

__all__ = ["as_answer", "as_stream"]

#: What is said once of a message or call, and not in pieces.
SAID_ONCE = frozenset({"role", "id", "type"})


def as_stream(answer: Mapping[str, Any], *, shows_usage: bool) -> bytes:
    """Return the stream that says what a whole answer says.

    Args:
        answer: The answer; its `choices` are a list.
        shows_usage: Whether the client asked for the chunk with usage.
    """
    head = {key: value for key, value in answer.items() if key not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    choices = [_as_delta(choice) for choice in answer["choices"] if isinstance(choice, dict)]
    chunks = [{**head, "choices": choices}]
    if shows_usage and answer.get("usage"):
        chunks.append({**head, "choices": [], "usage": answer["usage"]})
    return b"".join(b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def _as_delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    delta = dict(message) if isinstance(message, dict) else {}
    if isinstance(calls := delta.get("tool_calls"), list):
        delta["tool_calls"] = [{"index": i, **call} for i, call in enumerate(calls) if isinstance(call, dict)]
    return {**{key: value for key, value in choice.items() if key != "message"}, "delta": delta}


def as_answer(chunks: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the whole answer that the chunks of a stream add up to; the chunks are used up."""
    answer: dict[str, Any] = {}
    choices: dict[int, _Choice] = {}
    for chunk in chunks:
        answer |= {key: value for key, value in chunk.items() if value is not None}
        listed = chunk.get("choices")
        for choice in listed if isinstance(listed, list) else ():
            if isinstance(choice, dict):
                index = choice.get("index")
                index = index if isinstance(index, int) else 0
                choices.setdefault(index, _Choice()).add(choice)
    whole = [{"index": index, **choice.whole()} for index, choice in choices.items()]
    return orjson.dumps({**answer, "object": "chat.completion", "choices": whole})


class _Choice:
    """One choice of an answer, as far as its chunks have come."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {"finish_reason": None}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: dict[Any, dict[str, Any]] = {}

    def add(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        _add(self._fields, {key: value for key, value in choice.items() if key not in ("index", "delta")})
        _add(self._message, {key: value for key, value in delta.items() if key != "tool_calls"})
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                _add(self._call(call), {key: value for key, value in call.items() if key != "index"})

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call that a fragment goes on with: that of its index, or the last one if it names neither."""
        index = call.get("index")
        if index is None:
            index = len(self._calls) if call.get("id") or not self._calls else [*self._calls][-1]
        return self._calls.setdefault(index, {})

    def whole(self) -> dict[str, Any]:
        calls = {"tool_calls": list(self._calls.values())} if self._calls else {}
        return {"message": {**self._message, **calls}, **self._fields}


def _add(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add what a delta says to what is known: texts and lists go on, objects grow."""
    for key, value in more.items():
        match known.get(key), value:
            case dict() as before, dict():
                _add(before, value)
            case list() as before, list():
                before.extend(value)  # in place: log probabilities come as lists in each of many thousands of chunks
            case str() as before, str() if key in SAID_ONCE or (key == "name" and before == value):
                pass
            case str() as before, str() if key != "finish_reason":
                known[key] = before + value
            case _, None:
                pass
            case _, dict():
                known[key] = dict(value)
            case _:
                known[key] = value
