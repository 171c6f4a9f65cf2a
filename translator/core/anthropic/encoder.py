"""Events to the bytes of a Messages stream.

Each event is `event: <type>`, one `data:` line of JSON with the same `type`, and a blank line: the official SDKs
drop frames without a name, and lose the last one without its blank line. No `[DONE]` is sent: it breaks them.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-11-30).
"""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import orjson

from translator.core.anthropic.errors import render_error
from translator.core.anthropic.message import render_usage
from translator.core.events import (
    BlockStart,
    BlockStop,
    ContentBlock,
    Event,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    StreamFailed,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
    Usage,
)
from translator.core.order import State, next_state

__all__ = ["PING", "Encoder"]

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
BLOCK_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
END_OF_DELTA = b"}}\n\n"


class Encoder:
    """Write one message as a Messages stream: number its blocks, and keep their order."""

    def __init__(self, *, message_id: str, model: str, request_id: str, input_estimate: int) -> None:
        """Start before the first event.

        Args:
            message_id: Id of the message, `msg_` and more.
            model: Model as the client named it.
            request_id: Id of the request, told with an error.
            input_estimate: Input tokens to announce when the upstream has not counted them at the start.
        """
        self._message_id = message_id
        self._model = model
        self._request_id = request_id
        self._input_estimate = input_estimate
        self._state = State.UNSTARTED
        self._index = -1
        self._text = self._thinking = self._signature = self._input_json = b""

    @property
    def state(self) -> State:
        """How far the message has come."""
        return self._state

    def encode_all(self, events: Iterable[Event]) -> bytes:
        """Return the bytes of several events; empty when there are none."""
        return b"".join([self.encode(event) for event in events])

    def encode(self, event: Event) -> bytes:
        """Return the bytes of one event: a frame, or two where a ping follows the start.

        Raises:
            AssertionError: The event is out of order (see `translator.core.order`).
        """
        if self._state is not State.TEXT or not isinstance(event, TextDelta):
            self._state = next_state(self._state, event)
        match event:
            case TextDelta(text=text):
                return self._text + orjson.dumps(text) + END_OF_DELTA
            case ThinkingDelta(thinking=thinking):
                return self._thinking + orjson.dumps(thinking) + END_OF_DELTA
            case InputJsonDelta(partial_json=partial_json):
                return self._input_json + orjson.dumps(partial_json) + END_OF_DELTA
            case SignatureDelta(signature=signature):
                return self._signature + orjson.dumps(signature) + END_OF_DELTA
            case BlockStart(block=block):
                return self._block_start(block)
            case BlockStop():
                return BLOCK_STOP % self._index
            case MessageStart(usage=usage):
                return self._message_start(usage) + PING
            case MessageDelta():
                return _message_delta(event)
            case MessageStop():
                return MESSAGE_STOP
            case Ping():
                return PING
            case StreamFailed(error=error):
                return _frame("error", render_error(error, self._request_id))
            case _:
                assert_never(event)

    def _message_start(self, usage: Usage | None) -> bytes:
        message: dict[str, Any] = {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": render_usage(usage or Usage(input_tokens=self._input_estimate)),
        }
        return _frame("message_start", {"type": "message_start", "message": message})

    def _block_start(self, block: ContentBlock) -> bytes:
        self._index += 1
        self._text = DELTA % (self._index, b"text_delta", b"text")
        self._thinking = DELTA % (self._index, b"thinking_delta", b"thinking")
        self._signature = DELTA % (self._index, b"signature_delta", b"signature")
        self._input_json = DELTA % (self._index, b"input_json_delta", b"partial_json")
        start = {"type": "content_block_start", "index": self._index, "content_block": _render_block(block)}
        return _frame("content_block_start", start)


def _render_block(block: ContentBlock) -> Mapping[str, Any]:
    match block:
        case TextBlock():
            return {"type": "text", "text": ""}
        case ThinkingBlock():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolUseBlock():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
        case _:
            assert_never(block)


def _message_delta(event: MessageDelta) -> bytes:
    delta: dict[str, Any] = {"stop_reason": event.stop_reason, "stop_sequence": event.stop_sequence}
    if event.stop_details is not None:
        delta["stop_details"] = event.stop_details
    return _frame("message_delta", {"type": "message_delta", "delta": delta, "usage": render_usage(event.usage)})


def _frame(name: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))
