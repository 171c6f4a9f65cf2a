"""What upstreams send, for the tests: chunks to bytes, and answers put together as a client would."""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from translator.core.answer import AnswerContext
from translator.core.anthropic.encoder import Encoder
from translator.core.anthropic.message import render_message
from translator.core.events import Event, Ping, StreamFailed
from translator.core.openai_chat.decoder import Decoder
from translator.core.switches import Profile

__all__ = ["DONE", "answer", "chunk", "decode", "decoder", "encode", "finish", "message", "sse", "tool", "usage"]

DONE = "[DONE]"


def sse(*frames: Any) -> bytes:
    """Return a stream: strings as they are, the rest as JSON."""
    texts = (f if isinstance(f, str) else json.dumps(f, ensure_ascii=False) for f in frames)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def chunk(**delta: Any) -> dict[str, Any]:
    """Return a chunk with one delta."""
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}  # fmt: skip


def finish(reason: str | None = "stop", **more: Any) -> dict[str, Any]:
    """Return a chunk that says why the answer ended."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason, **more}]}


def usage(prompt: int = 20, completion: int = 5, **more: Any) -> dict[str, Any]:
    """Return a chunk with usage only."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


def tool(arguments: Any = None, *, name: str | None = None, **more: Any) -> dict[str, Any]:
    """Return one entry of `tool_calls`."""
    function = {"name": name, "arguments": arguments}
    return more | {"function": {key: value for key, value in function.items() if value is not None}}


def message(content: Any = None, *, reason: str | None = "stop", counts: Any = None, **more: Any) -> bytes:
    """Return a whole answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **more}, "finish_reason": reason}
    return json.dumps({"id": "c1", "object": "chat.completion", "choices": [choice], "usage": counts}).encode()


def answer(**more: Any) -> AnswerContext:
    """Return a context in which thinking is shown and a few tools are offered."""
    defaults: dict[str, Any] = {"model": "m", "tools": frozenset({"Read", "Bash"}), "show_thinking": True}
    return AnswerContext(**defaults | {"input_estimate": 100} | more)


def decoder(context: AnswerContext | None = None, *, secrets: tuple[str, ...] = (), **switches: Any) -> Decoder:
    """Return a decoder whose new ids are `toolu_1` and so on."""
    numbers = itertools.count(1)
    return Decoder(
        context or answer(), profile=Profile(**switches), new_id=lambda prefix: f"{prefix}_{next(numbers)}", secrets=secrets
    )  # fmt: skip


def decode(stream: bytes, make: Callable[[], Decoder] = decoder, *, step: int | None = None) -> list[Event]:
    """Return the events of a stream fed in pieces of `step` bytes, or whole; pings left out."""
    subject = make()
    step = step or max(1, len(stream))
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    events = [event for piece in pieces for event in subject.feed(piece)] + subject.finish()
    return [event for event in events if not isinstance(event, Ping)]


def encode(events: Iterable[Event]) -> bytes:
    """Return the bytes a client gets."""
    return Encoder(message_id="msg_1", model="m", request_id="req_1", input_estimate=100).encode_all(events)


def summary(events: Iterable[Event]) -> Mapping[str, Any]:
    """Return what the client ends up with: the message's blocks in short, why it ended, and the error."""
    events = list(events)
    failures = [event.error for event in events if isinstance(event, StreamFailed)]
    if failures:
        return {"error": (failures[0].type.value, failures[0].message)}
    whole = render_message(events, message_id="msg_1", model="m")
    return {"blocks": [_short(block) for block in whole["content"]], "stop": whole["stop_reason"].value}


def _short(block: Mapping[str, Any]) -> Any:
    match block["type"]:
        case "text":
            return block["text"]
        case "thinking":
            return ("thinking", block["thinking"])
        case _:
            return (block["id"], block["name"], block["input"])
