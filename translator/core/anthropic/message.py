"""Events to one whole message, for clients that do not stream."""

from collections.abc import Iterable
from typing import Any, assert_never

from translator.core.errors import AnswerFailed
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
from translator.core.tool_json import parse_partial

__all__ = ["render_message", "render_usage"]


def render_message(events: Iterable[Event], *, message_id: str, model: str) -> dict[str, Any]:
    """Return the message that a client would put together from the stream of the same events.

    Args:
        events: A complete message, from `MessageStart` to `MessageStop`.
        message_id: Id of the message, `msg_` and more.
        model: Model as the client named it.

    Raises:
        AnswerFailed: The events hold a `StreamFailed`.
    """
    message: dict[str, Any] = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": render_usage(Usage()),
    }
    assembly = _Assembly()
    for event in events:
        match event:
            case BlockStart(block=block):
                assembly = _Assembly(block)
            case TextDelta(text=text):
                assembly.texts.append(text)
            case ThinkingDelta(thinking=thinking):
                assembly.texts.append(thinking)
            case InputJsonDelta(partial_json=partial_json):
                assembly.texts.append(partial_json)
            case SignatureDelta(signature=signature):
                assembly.signature = signature
            case BlockStop():
                message["content"].append(assembly.render())
            case MessageDelta():
                message["stop_reason"] = event.stop_reason
                message["stop_sequence"] = event.stop_sequence
                message["stop_details"] = event.stop_details
                message["usage"] = render_usage(event.usage)
            case StreamFailed(error=error):
                raise AnswerFailed(error)
            case MessageStart() | MessageStop() | Ping():
                pass
            case _:
                assert_never(event)
    return message


def render_usage(usage: Usage) -> dict[str, Any]:
    """Return the `usage` object; the four counts are always there, since some clients need each of them."""
    rendered: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.thinking_tokens is not None:
        rendered["output_tokens_details"] = {"thinking_tokens": usage.thinking_tokens}
    return rendered


class _Assembly:
    """A content block whose deltas are being gathered."""

    def __init__(self, block: ContentBlock | None = None) -> None:
        self.block: ContentBlock = block or TextBlock()
        self.texts: list[str] = []
        self.signature = ""

    def render(self) -> dict[str, Any]:
        text = "".join(self.texts)
        match self.block:
            case TextBlock():
                return {"type": "text", "text": text}
            case ThinkingBlock():
                return {"type": "thinking", "thinking": text, "signature": self.signature}
            case ToolUseBlock(id=id_, name=name):
                return {"type": "tool_use", "id": id_, "name": name, "input": parse_partial(text)}
            case _:
                assert_never(self.block)
