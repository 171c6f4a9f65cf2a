"""What a client hears of one request: a whole message, a stream, or an error, as the judges read it.

Source: https://docs.anthropic.com/en/api/messages-streaming (read 2026-11).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from translator.core.errors import UpstreamProtocolError
from translator.core.events import UsageSource
from translator.core.sse import SSEDecoder

__all__ = ["Heard", "hear_error", "hear_stream", "hear_whole"]

UNREADABLE = "the answer can't be read"
#: What of an error's words is kept, in characters.
ERROR_CHARS_MAX = 300
#: Type of a delta -> its key, and the key of the block that it adds to.
DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "json"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An answer, or what came in its place."""

    #: HTTP status; 0 when no answer came.
    status: int = 200
    #: What went wrong, in words; empty when nothing did.
    error: str = ""
    content: Sequence[Mapping[str, Any]] = ()
    stop_reason: str | None = None
    stop_sequence: str | None = None
    #: Pieces of text in a stream.
    text_deltas: int = 0
    #: Whether the answer came to its end.
    is_ended: bool = False
    #: Who counted the tokens; None when that isn't known.
    usage_source: UsageSource | None = None
    #: What Bridge dropped or repaired, as short codes.
    notes: Sequence[str] = ()
    request_id: str = ""
    #: Upstream and upstream model of the last attempt; empty when that isn't known.
    served_by: str = ""

    @property
    def text(self) -> str:
        """All text of the answer."""
        return "".join(block.get("text") or "" for block in self.content if block.get("type") == "text")

    @property
    def thinking(self) -> Sequence[str]:
        """The text of each block of thinking."""
        return [block.get("thinking") or "" for block in self.content if block.get("type") == "thinking"]

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        """The tool calls, in order."""
        return [block for block in self.content if block.get("type") == "tool_use"]


def hear_error(status: int, body: bytes) -> Heard:
    """Read an answer whose status isn't 200."""
    match _object(body):
        case {"error": {"type": str(kind), "message": str(message)}}:
            return Heard(status=status, error=f"{status} {kind}: {message}"[:ERROR_CHARS_MAX])
        case _:
            return Heard(status=status, error=f"status {status}")


def hear_whole(body: bytes) -> Heard:
    """Read a whole message."""
    message = _object(body)
    content = message.get("content")
    if not isinstance(content, list):
        return Heard(error=UNREADABLE)
    return Heard(
        content=[block for block in content if isinstance(block, dict)],
        stop_reason=message.get("stop_reason"),
        stop_sequence=message.get("stop_sequence"),
        is_ended=True,
    )


def hear_stream(body: bytes) -> Heard:
    """Put a message together from all bytes of its stream."""
    decoder = SSEDecoder()
    try:
        frames = [*decoder.feed(body), *decoder.close()]
    except UpstreamProtocolError:
        return Heard(error=UNREADABLE)
    blocks: dict[int, dict[str, Any]] = {}
    heard = Heard()
    for frame in frames:
        heard = _take(heard, blocks, _object(frame.data))
    return replace(heard, content=[_closed(blocks[index]) for index in sorted(blocks)])


def _take(heard: Heard, blocks: dict[int, dict[str, Any]], event: Mapping[str, Any]) -> Heard:
    match event:
        case {"type": "content_block_start", "index": int(index), "content_block": {"type": str()} as block}:
            blocks[index] = dict(block)
        case {"type": "content_block_delta", "index": int(index), "delta": {"type": str(kind)} as delta}:
            if index in blocks and kind in DELTAS:
                key, place = DELTAS[kind]
                blocks[index][place] = f"{blocks[index].get(place) or ''}{delta.get(key) or ''}"
            return replace(heard, text_deltas=heard.text_deltas + (kind == "text_delta"))
        case {"type": "message_delta", "delta": {"stop_reason": str(reason)} as delta}:
            return replace(heard, stop_reason=reason, stop_sequence=delta.get("stop_sequence"))
        case {"type": "message_stop"}:
            return replace(heard, is_ended=True)
        case {"type": "error", "error": {"type": str(kind), "message": str(message)}}:
            return replace(heard, error=f"{kind} within the stream: {message}"[:ERROR_CHARS_MAX])
        case _:
            pass
    return heard


def _closed(block: dict[str, Any]) -> Mapping[str, Any]:
    """Give a block of a call its input, whose JSON came in pieces."""
    return {**block, "input": _object(block["json"].encode())} if "json" in block else block


def _object(body: bytes) -> Mapping[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    try:
        found = orjson.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
