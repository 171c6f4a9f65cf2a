"""Tools and the choice of them.

Tools that Anthropic's servers run are left out, as nobody here could answer their calls; client tools that
Anthropic defines become function tools. Unknown keys of a tool are dropped.

Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use, `openai` 3.57.0 `types/chat` (2026-11-30).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, assert_never

import orjson

from translator.core.anthropic.client_tools import client_tool
from translator.core.anthropic.request import MessagesRequest
from translator.core.errors import InvalidRequest, UnsupportedFeature
from translator.core.openai_chat.schemas import clean_schema
from translator.core.switches import Profile

__all__ = [
    "OfferedTools",
    "asked_in_words",
    "is_choice_meant",
    "offer_tools",
    "offered_tools",
    "tool_description",
    "upstream_tool_name",
]

#: Gemini and Kimi take no name that begins with a digit or a hyphen.
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
DIGEST_LENGTH = 8

#: Families of tools that the client runs and whose calls carry more than a name; too large to imitate.
TOOLSETS = ("computer_toolset_", "browser_toolset_")

ASK_FOR_ANY = "Answer by calling one of the tools."
ASK_FOR_ONE = "Answer by calling the tool {name}."
ASK_FOR_NONE = "Answer without calling a tool."


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTools:
    """What a request says of tools, in the upstream's words."""

    #: `tools`, `tool_choice` and `parallel_tool_calls`, each only where it is sent.
    keys: dict[str, Any]
    names: frozenset[str] = frozenset()
    #: Upstream's name to the client's, only where they differ.
    tool_names: Mapping[str, str]
    forced: str | None = None
    #: What the system message must ask for, since no key can.
    ask: str = ""
    #: How to call tools through the text, for the beginning of the system message; only where they are emulated.
    manual: str = ""
    #: What the last user message must say of them.
    reminder: str = ""
    #: Schemas of the tools that may be called through the text, by name.
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Whether the client wants a call, and nothing else will do.
    must_call: bool = False
    notes: tuple[str, ...] = ()

    @property
    def is_forced(self) -> bool:
        """Whether a key says that the model must call."""
        return self.keys.get("tool_choice") not in (None, "auto", "none")


def upstream_tool_name(name: str, max_length: int) -> str:
    """Return a name that the upstream accepts: the same for the same name, another for another."""
    if len(name) <= max_length and PLAIN_NAME.fullmatch(name):
        return name
    digest = sha256(name.encode()).hexdigest()[:DIGEST_LENGTH]
    plain = NOT_PLAIN.sub("_", name if name[:1].isalpha() else f"t_{name}")
    return f"{plain[: max(0, max_length - DIGEST_LENGTH - 1)]}_{digest}"


def offer_tools(request: MessagesRequest, profile: Profile) -> OfferedTools:
    """Return the tools of a request and the choice among them."""
    offered, notes = offered_tools(request)
    called = list(dict.fromkeys(_called(request)))
    if profile.tools_of_history:
        offered |= {name: {"name": name} for name in called if name not in offered}
    choice = request.tool_choice or {}
    if choice.get("type") == "none" and profile.tool_choice_none == "drop_tools" and not called:
        offered = {}
    upstream_names = {name: upstream_tool_name(name, profile.tool_name_max) for name in (*offered, *called)}
    keys, forced, ask = _choice(request, offered, upstream_names, profile)
    if offered:
        keys["tools"] = [_function(tool, upstream_names[name], profile) for name, tool in offered.items()]
    return OfferedTools(
        keys=keys,
        names=frozenset(upstream_names[name] for name in offered),
        tool_names={upstream: name for name, upstream in upstream_names.items() if upstream != name},
        forced=forced,
        ask=ask,
        notes=notes,
    )


def offered_tools(request: MessagesRequest) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """Return the tools that stand at the end of the conversation, by name, and notes on what was left out."""
    tools = {tool["name"]: tool for tool in map(_as_custom, request.tools) if tool}
    _refuse_lone_toolset(request, tools)
    notes = ("server_tool_dropped",) if len(tools) < len(request.tools) else ()
    removed: set[str] = set()
    for change in _changes(request):
        match change:
            case {"type": "tool_removal", "tool": {"name": str(name)}}:
                removed.add(name)
            case {"type": "tool_addition", "tool": {"definition": {"name": str(name)} as definition}}:
                removed.discard(name)
                if tool := _as_custom(definition):
                    tools[name] = tool
            case {"type": "tool_addition", "tool": {"name": str(name)}}:
                removed.discard(name)
            case _:
                pass
    return {name: tool for name, tool in tools.items() if name not in removed}, notes


def _as_custom(tool: dict[str, Any]) -> dict[str, Any] | None:
    """Return the tool with a name and a schema; None when only Anthropic's servers could run it."""
    callers = tool.get("allowed_callers")
    if isinstance(callers, list) and "direct" not in callers:
        return None
    kind = tool.get("type")
    if kind is None or kind == "custom":
        return tool
    return client_tool(tool) or (tool if tool.get("name") and tool.get("input_schema") else None)


def _refuse_lone_toolset(request: MessagesRequest, tools: Mapping[str, Any]) -> None:
    for index, tool in enumerate(request.tools):
        kind = tool.get("type") or ""
        if not tools and kind.startswith(TOOLSETS):
            reason = f'client toolset "{kind}" is not supported by this gateway'
            raise UnsupportedFeature(path=f"tools.{index}", reason=reason)


def _changes(request: MessagesRequest) -> Iterator[dict[str, Any]]:
    for message in request.messages:
        if message["role"] == "system" and isinstance(message.get("content"), list):
            yield from message["content"]


def _called(request: MessagesRequest) -> Iterator[str]:
    for message in request.messages:
        if message["role"] == "assistant" and isinstance(message["content"], list):
            yield from (block["name"] for block in message["content"] if block["type"] == "tool_use")


def _function(tool: Mapping[str, Any], name: str, profile: Profile) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    if description := tool_description(tool):
        function["description"] = description
    function["parameters"] = clean_schema(tool.get("input_schema"), profile)
    if profile.strict_tools and tool.get("strict") is True:
        function["strict"] = True
    return {"type": "function", "function": function}


def tool_description(tool: Mapping[str, Any]) -> str:
    """Return what a model is told of a tool, examples included."""
    description = tool.get("description") or ""
    examples = tool.get("input_examples")
    if not isinstance(examples, list) or not examples:
        return description
    lines = "\n".join(orjson.dumps(example).decode() for example in examples)
    return f"{description}\n\nExamples:\n{lines}".lstrip()


def _choice(
    request: MessagesRequest, offered: Mapping[str, Any], upstream_names: Mapping[str, str], profile: Profile
) -> tuple[dict[str, Any], str | None, str]:
    """Return the keys of the choice, the forced tool and what the system message must ask for."""
    choice = request.tool_choice
    if not choice or not (request.tools or offered) or not is_choice_meant(choice, request, offered):
        return {}, None, ""
    keys: dict[str, Any] = {}
    if choice.get("disable_parallel_tool_use") and profile.parallel_tool_calls:
        keys["parallel_tool_calls"] = False
    match choice["type"]:
        case "auto" if profile.tool_choice_auto == "send":
            return {**keys, "tool_choice": "auto"}, None, ""
        case "none" if profile.tool_choice_none == "send":
            return {"tool_choice": "none"}, None, ""
        case "any" if profile.tool_choice_any == "ask":
            return keys, None, ASK_FOR_ANY
        case "any":
            return {**keys, "tool_choice": profile.tool_choice_any}, None, ""
        case "tool":
            name = upstream_names[choice["name"]]
            return {**keys, **_forced(name, profile)}, name, _ask_for(name, profile)
        case _:
            return keys, None, ""


def is_choice_meant(choice: Mapping[str, Any], request: MessagesRequest, offered: Mapping[str, Any]) -> bool:
    """Tell whether the choice still means something after server tools were left out.

    Raises:
        InvalidRequest: It names a tool that nobody offered.
    """
    if choice["type"] != "tool":
        return bool(offered)
    name = choice["name"]
    if name not in offered and all(tool.get("name") != name for tool in request.tools):
        reason = f'tool "{name}" not found in tools'
        raise InvalidRequest(path="tool_choice.name", reason=reason)
    return name in offered


def _forced(name: str, profile: Profile) -> dict[str, Any]:
    match profile.tool_choice_tool:
        case "function":
            return {"tool_choice": {"type": "function", "function": {"name": name}}}
        case "required":
            return {"tool_choice": "required"}
        case "ask":
            return {}
        case _:
            assert_never(profile.tool_choice_tool)


def _ask_for(name: str, profile: Profile) -> str:
    return "" if profile.tool_choice_tool == "function" else ASK_FOR_ONE.format(name=name)


def asked_in_words(body: Mapping[str, Any], choice: Any) -> dict[str, Any]:
    """Return the keys of a chat or Responses body that ask for a choice whose own key the upstream refused."""
    match choice:
        case "required" | "any":
            ask = ASK_FOR_ANY
        case "none":
            ask = ASK_FOR_NONE
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            ask = ASK_FOR_ONE.format(name=name)
        case _:
            return {}
    if "messages" not in body:
        return {"instructions": "\n\n".join(filter(None, (body.get("instructions"), ask)))}
    first, *others = body["messages"]
    if first["role"] == "system":
        return {"messages": [{**first, "content": f"{first['content']}\n\n{ask}"}, *others]}
    return {"messages": [{"role": "system", "content": ask}, first, *others]}
