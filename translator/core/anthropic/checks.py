"""The Messages schema, as far as it is enforced.

Only what the translation relies on is checked: the types of the fields it reads. Fields, block types and tool types it
does not know pass, since clients are newer than gateways. Errors carry the plain path of the field
(`messages.3.content.1.source`) and the words that Anthropic's own validation uses.

Source: the parameter types of the `anthropic` package 2.14.0 and
https://platform.claude.com/docs/en/api/messages (read 2026-11-30).
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from translator.core.errors import InvalidRequest

__all__ = ["check_request"]

type Check = Callable[[Any, str], None]

#: Anthropic's own limit.
MAX_MESSAGES = 100_000
#: Longer names are no model's; the ledger keeps them whole.
MAX_MODEL_LENGTH = 256
MAX_TOKENS_MAX = 2**31 - 1

ROLES = ("user", "assistant", "system")
TOOL_CHOICES = ("auto", "any", "tool", "none")


def _fail(path: str, reason: str) -> NoReturn:
    raise InvalidRequest(path, reason)


def _string(value: Any, path: str) -> None:
    if not isinstance(value, str):
        _fail(path, "Input should be a valid string")


def _name(value: Any, path: str) -> None:
    _string(value, path)
    if not value:
        _fail(path, "String should have at least 1 character")


def _model(value: Any, path: str) -> None:
    _name(value, path)
    if len(value) > MAX_MODEL_LENGTH:
        _fail(path, f"String should have at most {MAX_MODEL_LENGTH} characters")


def _boolean(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        _fail(path, "Input should be a valid boolean")


def _number(value: Any, path: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _fail(path, "Input should be a valid number")


def _integer(value: Any, path: str) -> None:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        _fail(path, "Input should be a valid integer")


def _max_tokens(value: Any, path: str) -> None:
    _integer(value, path)
    if value < 0:
        _fail(path, "Input should be greater than or equal to 0")
    if value > MAX_TOKENS_MAX:
        _fail(path, f"Input should be less than or equal to {MAX_TOKENS_MAX}")


def _object(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        _fail(path, "Input should be a valid dictionary")


def _fields(value: Any, path: str, required: Mapping[str, Check], optional: Mapping[str, Check]) -> None:
    _object(value, path)
    for name, check in required.items():
        if name not in value:
            _fail(f"{path}.{name}" if path else name, "Field required")
        check(value[name], f"{path}.{name}" if path else name)
    for name, check in optional.items():
        if value.get(name) is not None:
            check(value[name], f"{path}.{name}" if path else name)


def _shape(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    return lambda value, path: _fields(value, path, required, optional or {})


def _items(check: Check) -> Check:
    def check_items(value: Any, path: str) -> None:
        if not isinstance(value, list):
            _fail(path, "Input should be a valid list")
        for index, item in enumerate(value):
            check(item, f"{path}.{index}")

    return check_items


def _content(value: Any, path: str) -> None:
    """A string or blocks: of messages, of tool results, of documents."""
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        _fail(path, "Input should be a valid string or array")
    for index, block in enumerate(value):
        _block(block, f"{path}.{index}")


def _block(block: Any, path: str) -> None:
    _object(block, path)
    kind = block.get("type")
    if isinstance(kind, str):
        if kind in BLOCKS:
            BLOCKS[kind](block, path)
    elif "type" in block:
        _fail(f"{path}.type", "Input should be a valid string")
    else:
        _fail(f"{path}.type", "Field required")


def _source(source: Any, path: str) -> None:
    _fields(source, path, {"type": _string}, {})
    if source["type"] in SOURCES:
        SOURCES[source["type"]](source, path)


def _role(value: Any, path: str) -> None:
    if value not in ROLES:
        _fail(path, "Input should be 'user', 'assistant' or 'system'")


def _message(message: Any, path: str) -> None:
    _fields(message, path, {"role": _role}, {"content": _content, "output_config": _object})
    if message.get("content") is None and message["role"] != "system":
        _fail(f"{path}.content", "Field required")
    if message["role"] != "assistant" and isinstance(message.get("content"), list):
        _no_calls(message["content"], path)


def _no_calls(content: list[Any], path: str) -> None:
    for index, block in enumerate(content):
        if block["type"] == "tool_use":
            _fail(f"{path}.content.{index}", "`tool_use` blocks can only be in `assistant` messages")


def _messages(value: Any, path: str) -> None:
    if not isinstance(value, list):
        _fail(path, "Input should be a valid list")
    if not value:
        _fail(path, "at least one message is required")
    if len(value) > MAX_MESSAGES:
        _fail(path, f"List should have at most {MAX_MESSAGES} items")
    for index, message in enumerate(value):
        _message(message, f"{path}.{index}")


def _openai_shape(_: Any, path: str) -> None:
    """Left out in silence, such a block or tool would be missed by nobody but the model."""
    _fail(path, "this is OpenAI's shape; send the request to /v1/chat/completions")


def _tool(tool: Any, path: str) -> None:
    _fields(tool, path, {}, {"type": _string, "name": _name, "description": _string, "input_schema": _object})
    if tool.get("type") == "function":
        _openai_shape(tool, path)
    if tool.get("type") in (None, "custom"):
        _fields(tool, path, {"name": _name}, {})


def _tools(value: Any, path: str) -> None:
    _items(_tool)(value, path)
    names = [tool["name"] for tool in value if tool.get("name") is not None]
    if len(names) != len(set(names)):
        _fail(path, "Tool names must be unique.")


def _tool_choice(value: Any, path: str) -> None:
    _fields(value, path, {"type": _string}, {"disable_parallel_tool_use": _boolean})
    if value["type"] not in TOOL_CHOICES:
        _fail(f"{path}.type", "Input should be 'auto', 'any', 'tool' or 'none'")
    if value["type"] == "tool":
        _fields(value, path, {"name": _name}, {})


def _thread(value: Any, path: str) -> None:
    """The official tool runner repeats the call without `thread` when it reads this `error_code`."""
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    raise InvalidRequest(path, "not supported by this gateway", details)


SOURCES: Mapping[str, Check] = {
    "base64": _shape({"media_type": _string, "data": _string}),
    "url": _shape({"url": _string}),
    "text": _shape({"data": _string}),
    "content": _shape({"content": _content}),
}

BLOCKS: Mapping[str, Check] = {
    **dict.fromkeys(("image_url", "input_audio", "input_file", "input_image"), _openai_shape),
    "text": _shape({"text": _string}),
    "image": _shape({"source": _source}),
    "document": _shape({"source": _source}, {"title": _string, "context": _string}),
    "search_result": _shape({"content": _content}, {"title": _string, "source": _string}),
    "thinking": _shape({}, {"thinking": _string, "signature": _string}),
    "tool_use": _shape({"id": _name, "name": _name}, {"input": _object}),
    "tool_addition": _shape({"tool": _shape({}, {"name": _name, "definition": _tool})}),
    "tool_result": _shape({"tool_use_id": _name}, {"content": _content, "is_error": _boolean}),
}

COUNTED: Mapping[str, Check] = {"model": _model, "messages": _messages}
REQUIRED: Mapping[str, Check] = {"model": _model, "max_tokens": _max_tokens, "messages": _messages}
OPTIONAL: Mapping[str, Check] = {
    "system": _content,
    "stream": _boolean,
    "temperature": _number,
    "top_p": _number,
    "top_k": _integer,
    "stop_sequences": _items(_string),
    "tools": _tools,
    "tool_choice": _tool_choice,
    "thinking": _shape({"type": _string}, {"budget_tokens": _integer}),
    "output_config": _shape({}, {"format": _shape({"type": _string}, {"schema": _object})}),
    "output_format": _shape({"type": _string}, {"schema": _object}),
    "metadata": _shape({}, {"user_id": _string}),
    "mcp_servers": _items(_object),
    "thread": _thread,
}


def check_request(body: dict[str, Any], *, for_counting: bool = False) -> None:
    """Raise `InvalidRequest` where the body breaks what the translation relies on.

    Args:
        body: The request, as parsed.
        for_counting: Check it for `count_tokens`, which needs no `max_tokens`.
    """
    optional = {**OPTIONAL, "max_tokens": _max_tokens} if for_counting else OPTIONAL
    _fields(body, "", COUNTED if for_counting else REQUIRED, optional)
