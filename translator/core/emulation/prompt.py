"""What a model without tool calls of its own is told of tools.

The manual opens the system message and depends on nothing but the tools, so that the upstream's prompt cache holds it for
all conversations with the same tools. What changes from request to request (the choice among tools, parallel calls) stands in
a reminder at the end of the last user message, nearest to the answer. `docs/emulation.md` says more.

The form asked for is the one that most open models were trained on (Hermes, Qwen): an object in a tag, arguments not
encoded twice, the name before the arguments.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from translator.core.anthropic.request import MessagesRequest
from translator.core.emulation.kinds import EMULATION
from translator.core.estimate import TOKENS_PER_TOOL
from translator.core.openai_chat.blocks import text_part
from translator.core.openai_chat.schemas import clean_schema
from translator.core.openai_chat.tools import OfferedTools, is_choice_meant, offered_tools, tool_description
from translator.core.switches import Profile

__all__ = ["added_tokens", "describe_tools", "remind", "written_call"]

MANUAL = """# Tools

You can call the tools that are described here, one a line:

<tools>
{tools}
</tools>

To call a tool, write its name and a JSON object of arguments that fits its parameters, in exactly this form:

{example}

- Say what you have to say before the first call, and write nothing after the last one.
- Several calls are several such blocks, one after the other.
- Results come in the next message, as <tool_response> blocks in the order of the calls. Never write one yourself.
- In JSON strings, escape double quotes, backslashes and line breaks.
- What stands in a code fence is not a call."""

REMINDER = "<system-reminder>\n{words}\n</system-reminder>"
IN_AUTO = "To call a tool, write {example}. If no tool is needed, answer in words."
IN_ANY = "Answer by calling one of the tools: write {example} and nothing after it."
IN_TOOL = "Answer by calling the tool {name}: write {example} and nothing after it."
IN_NONE = "Answer in words. No tool can be called now."
ONE_ONLY = " Make one call only."

#: The words above in tokens, without what is counted for tools anyhow; and the tags of a call or a result.
TOKENS_FOR_WORDS = 200
TOKENS_PER_BLOCK = 13


def written_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call in the form that the model is asked for."""
    call = orjson.dumps({"name": name, "arguments": arguments}).decode()
    return f"<tool_call>\n{call}\n</tool_call>"


def describe_tools(request: MessagesRequest, profile: Profile) -> OfferedTools:
    """Return the tools of a request in words, and the choice among them.

    Raises:
        InvalidRequest: The choice names a tool that nobody offered.
    """
    offered, notes = offered_tools(request)
    choice = request.tool_choice or {"type": "auto"}
    if not is_choice_meant(choice, request, offered):
        choice = {"type": "auto"}
    if not offered:
        return OfferedTools(keys={}, tool_names={}, notes=notes)
    schemas = {name: clean_schema(tool.get("input_schema"), profile) for name, tool in offered.items()}
    callable_ = _callable(schemas, choice)
    return OfferedTools(
        keys={},
        names=frozenset(callable_),
        tool_names={},
        forced=choice.get("name") if choice["type"] == "tool" else None,
        manual=_manual(offered, schemas),
        reminder=_reminder(choice),
        schemas=callable_,
        must_call=choice["type"] in ("any", "tool"),
        notes=(*notes, EMULATION),
    )


def added_tokens(request: MessagesRequest) -> int:
    """Return about how many tokens more than by `estimate_input_tokens` a request is; fewer with very many tools."""
    contents = [message.get("content") for message in request.messages]
    kinds = [block["type"] for content in contents if isinstance(content, list) for block in content]
    blocks = kinds.count("tool_use") + kinds.count("tool_result")
    words = TOKENS_FOR_WORDS - TOKENS_PER_TOOL * len(request.tools) if request.tools else 0
    return words + TOKENS_PER_BLOCK * blocks


def remind(messages: list[dict[str, Any]], reminder: str) -> bool:
    """Say the reminder at the end of the last user message; return False where there is none."""
    for message in reversed(messages):
        if message["role"] == "user":
            content = message["content"]
            is_text = isinstance(content, str)
            message["content"] = f"{content}\n\n{reminder}" if is_text else [*content, text_part(reminder)]
            return True
    return False


def _callable(schemas: Mapping[str, dict[str, Any]], choice: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tools that a call in the answer may name."""
    match choice["type"]:
        case "none":
            return {}
        case "tool":
            return {choice["name"]: schemas[choice["name"]]}
        case _:
            return dict(schemas)


def _manual(offered: Mapping[str, Mapping[str, Any]], schemas: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [orjson.dumps(_described(name, tool, schemas[name])).decode() for name, tool in offered.items()]
    example = written_call("NAME", {"KEY": "VALUE"})
    return MANUAL.replace("{example}", example).replace("{tools}", "\n".join(lines))


def _described(name: str, tool: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    description = tool_description(tool)
    return {"name": name, **({"description": description} if description else {}), "parameters": schema}


def _reminder(choice: Mapping[str, Any]) -> str:
    name = choice.get("name", "NAME")
    example = f'<tool_call>{{"name":{orjson.dumps(name).decode()},"arguments":{{...}}}}</tool_call>'
    match choice["type"]:
        case "none":
            return REMINDER.format(words=IN_NONE)
        case "any":
            words = IN_ANY.format(example=example)
        case "tool":
            words = IN_TOOL.format(example=example, name=name)
        case _:
            words = IN_AUTO.format(example=example)
    return REMINDER.format(words=words + ONE_ONLY if choice.get("disable_parallel_tool_use") else words)
