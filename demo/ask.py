"""What a call asks for, whatever dialect it is written in: the three readers give the same `Ask`.

Fields that a reader doesn't know are left alone, as the providers do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message: `role` is system, user, assistant or tool."""

    role: str
    text: str
    #: Pictures that came with it, in base64.
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that was offered."""

    name: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One call, as far as the answer depends on it."""

    model: str
    stream: bool
    turns: list[Turn]
    tools: list[Tool]
    #: "auto", "none", "required", or the name of the tool that must be called.
    tool_choice: str = "auto"
    #: Several tools may be called in one answer.
    parallel: bool = True
    wants_reasoning: bool = False
    wants_usage: bool = True
    max_tokens: int | None = None
    stop: list[str] = field(default_factory=list)
    #: The schema that the answer must fit; None: free text.
    schema: dict[str, Any] | None = None
    #: What the provider reads, in order: its length gives the input tokens, its beginning the cached ones.
    parts: list[Any] = field(default_factory=list)
    #: The tools stand in the system message, and calls go into the text.
    calls_in_text: bool = False

    def last_user_turn(self) -> int:
        """Give the place of the last message of the user; -1 when there is none."""
        return max((place for place, turn in enumerate(self.turns) if turn.role == "user"), default=-1)


def read_chat(body: dict[str, Any]) -> Ask:
    """Read a chat/completions body."""
    messages = _dicts(body.get("messages"))
    effort = body.get("reasoning_effort")
    template = body.get("chat_template_kwargs") or {}
    return Ask(
        model=str(body.get("model", "")),
        stream=body.get("stream") is True,
        turns=[_turn(str(m.get("role", "")), m.get("content")) for m in messages],
        tools=[_tool(f, "parameters") for t in _dicts(body.get("tools")) if isinstance(f := t.get("function"), dict)],
        tool_choice=_choice(body.get("tool_choice")),
        parallel=body.get("parallel_tool_calls") is not False,
        wants_reasoning=effort not in (None, "none")
        or bool(body.get("reasoning"))
        or _is_thinking(body.get("thinking"))
        or True in (template.get("enable_thinking"), template.get("thinking")),
        wants_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        stop=_stops(body.get("stop")),
        schema=((body.get("response_format") or {}).get("json_schema") or {}).get("schema"),
        parts=[body.get("tools"), *messages],
    )


def read_messages(body: dict[str, Any]) -> Ask:
    """Read a body of Anthropic's Messages API."""
    messages = _dicts(body.get("messages"))
    choice = body.get("tool_choice") or {}
    output = body.get("output_config") or {}
    return Ask(
        model=str(body.get("model", "")),
        stream=body.get("stream") is True,
        turns=[turn for message in messages for turn in _turns_of_blocks(message)],
        tools=[_tool(tool, "input_schema") for tool in _dicts(body.get("tools"))],
        tool_choice={"any": "required", "tool": choice.get("name", "auto")}.get(
            choice.get("type", ""), choice.get("type", "auto")
        ),
        parallel=choice.get("disable_parallel_tool_use") is not True,
        wants_reasoning=_is_thinking(body.get("thinking")),
        max_tokens=body.get("max_tokens"),
        stop=_stops(body.get("stop_sequences")),
        schema=(output.get("format") or {}).get("schema"),
        parts=[body.get("tools"), body.get("system"), *messages],
    )


def read_responses(body: dict[str, Any]) -> Ask:
    """Read a body of OpenAI's Responses API."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else _dicts(given)
    return Ask(
        model=str(body.get("model", "")),
        stream=body.get("stream") is True,
        turns=[_turn_of_item(item) for item in items],
        tools=[_tool(tool, "parameters") for tool in _dicts(body.get("tools")) if tool.get("type") == "function"],
        tool_choice=_choice(body.get("tool_choice")),
        parallel=body.get("parallel_tool_calls") is not False,
        wants_reasoning=bool(body.get("reasoning")),
        max_tokens=body.get("max_output_tokens"),
        schema=((body.get("text") or {}).get("format") or {}).get("schema"),
        parts=[body.get("tools"), body.get("instructions"), *items],
    )


def text_of(content: Any) -> str:
    """Join the texts of a content field: a string, or a list of parts of any dialect."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part["text"]) for part in _dicts(content) if "text" in part)


def _turns_of_blocks(message: dict[str, Any]) -> list[Turn]:
    """Cut a message with tool results into turns, so that a result is a turn of its own."""
    content = message.get("content")
    results = [
        Turn(role="tool", text=text_of(block.get("content")))
        for block in _dicts(content)
        if block.get("type") == "tool_result"
    ]
    said = _turn(str(message.get("role", "")), content)
    return results + ([said] if said.text or said.images or not results else [])


def _turn_of_item(item: dict[str, Any]) -> Turn:
    if item.get("type") == "function_call_output":
        return Turn(role="tool", text=text_of(item.get("output")))
    return _turn(str(item.get("role", "assistant")), item.get("content"))


def _turn(role: str, content: Any) -> Turn:
    return Turn(role=role, text=text_of(content), images=tuple(_images_of(content)))


def _images_of(content: Any) -> Iterator[str]:
    """Give the pictures of a content field of any dialect; those by address nobody here fetches."""
    for part in _dicts(content):
        match part:
            case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
                yield url.partition(";base64,")[2]
            case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
                yield data


def _tool(tool: dict[str, Any], schema_key: str) -> Tool:
    schema = tool.get(schema_key)
    return Tool(name=str(tool.get("name", "")), schema=schema if isinstance(schema, dict) else {})


def _choice(choice: Any) -> str:
    if isinstance(choice, dict):
        return str((choice.get("function") or choice).get("name", "auto"))
    return str(choice or "auto")


def _is_thinking(thinking: Any) -> bool:
    return isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")


def _stops(stop: Any) -> list[str]:
    return [stop] if isinstance(stop, str) else [item for item in stop or [] if isinstance(item, str)]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
