"""Tools for a model that has none: told in the system message, called in the text, answered in the user's words.

Reads what Bridge writes for such models (`docs/emulation.md`), and writes calls as one of several models would.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson

from demo.ask import Ask, Tool, Turn

TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
RESPONSE = re.compile(r"<tool_response name=\"[^\"]*\">\n(.*?)\n</tool_response>\s*", re.DOTALL)
REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
FORCED = re.compile(r"Answer by calling the tool (\S+):")


def as_told(ask: Ask) -> Ask:
    """Read the tools that stand in the system message, if any do."""
    found = TOOLS.search(ask.turns[0].text) if ask.turns and not ask.tools else None
    if found is None:
        return ask
    reminder = ask.turns[-1].text
    forced = FORCED.search(reminder)
    choice = forced[1] if forced else "required" if "Answer by calling one of" in reminder else "auto"
    return replace(
        ask,
        tools=[_tool(line) for line in found[1].split("\n")],
        tool_choice="none" if "No tool can be called" in reminder else choice,
        turns=[told for turn in ask.turns for told in _turns(turn)],
        calls_in_text=True,
    )


def _tool(line: str) -> Tool:
    told = orjson.loads(line)
    return Tool(name=told["name"], schema=told["parameters"])


def _turns(turn: Turn) -> Iterator[Turn]:
    """Cut results out of a user's message, so that each is a turn of its own."""
    if turn.role != "user":
        yield turn
        return
    results = RESPONSE.findall(turn.text)
    text = REMINDER.sub("", RESPONSE.sub("", turn.text)) if results else turn.text
    if text or not results:
        yield replace(turn, text=text)
    yield from (Turn(role="tool", text=result) for result in results)


def _parameters(arguments: str, opening: str) -> str:
    values = orjson.loads(arguments)
    return "".join(
        f"{opening.format(key)}{value if isinstance(value, str) else orjson.dumps(value).decode()}</parameter>"
        for key, value in values.items()
    )


def _json(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


#: How a call is written, by the word that a script says.
FORMS: dict[str, Callable[[str, str], str]] = {
    "hermes": lambda name, arguments: f"<tool_call>\n{_json(name, arguments)}\n</tool_call>\n",
    "fence": lambda name, arguments: f"```json\n{_json(name, arguments)}\n```\n",
    "bare": lambda name, arguments: f"{_json(name, arguments)}\n",
    "openai": lambda name, arguments: (
        orjson.dumps(
            {"tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}
        ).decode()
        + "\n"
    ),
    "qwen": lambda name, arguments: (
        f"<tool_call>\n<function={name}>{_parameters(arguments, '<parameter={}>')}</function>\n</tool_call>\n"
    ),
    "invoke": lambda name, arguments: (
        f'<invoke name="{name}">{_parameters(arguments, '<parameter name="{}">')}</invoke>\n'
    ),
    "mistral": lambda name, arguments: f"[TOOL_CALLS]{name}[ARGS]{arguments}",
    #: Quotes of the wrong kind, and a bracket too few.
    "broken": lambda name, arguments: (
        f"<tool_call>\n{_json(name, arguments)[:-1].replace('"name"', "'name'")}\n</tool_call>\n"
    ),
}
