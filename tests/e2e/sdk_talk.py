"""A conversation with a tool through the official Python SDK, whole or streamed."""

from typing import Any

import anthropic
from anthropic.types import Message, ToolUseBlock

WEATHER: Any = {
    "name": "get_weather",
    "description": "Tell the weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def user(content: Any) -> Any:
    return {"role": "user", "content": content}


def converse(
    client: anthropic.Anthropic, history: list[Any], is_streamed: bool, model: str = "demo", **fields: Any
) -> Message:
    if not is_streamed:
        message: Message = client.messages.create(
            model=model, max_tokens=500, messages=history, tools=[WEATHER], **fields
        )
        return message
    with client.messages.stream(model=model, max_tokens=500, messages=history, tools=[WEATHER], **fields) as stream:
        return stream.get_final_message()


def ask_for_the_weather(client: anthropic.Anthropic, is_streamed: bool) -> tuple[ToolUseBlock, Message]:
    """Have the tool called and answer the call; return the call and what the model makes of the answer."""
    history = [user("Use get_weather for Paris")]

    first = converse(client, history, is_streamed)
    call = next(block for block in first.content if block.type == "tool_use")
    assert (first.stop_reason, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"})
    history.append({"role": "assistant", "content": first.content})
    history.append(user([{"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"}]))
    return call, converse(client, history, is_streamed)
