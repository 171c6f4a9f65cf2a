"""A model that is sound but for one thing: it doesn't hear of it, or it refuses whoever asks for it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from demo.ask import Ask
from demo.script import Script

#: What a model hears in place of what it is deaf to.
HEARD_INSTEAD: Mapping[str, Mapping[str, Any]] = {
    "tools": {"tools": []},
    "choice": {"tool_choice": "auto"},
    "parallel": {"parallel": False},
    "stop": {"stop": []},
    "limit": {"max_tokens": None},
    "thinking": {"wants_reasoning": False},
}
#: What a model that refuses something looks for.
HOLDS: Mapping[str, Callable[[Ask], bool]] = {
    "images": lambda ask: any(turn.images for turn in ask.turns),
    "tools": lambda ask: bool(ask.tools),
}


def lacking(ask: Ask, script: Script) -> tuple[Ask, Script]:
    """Return the call as such a model hears it, and the script, which may have become a refusal."""
    if script.deaf is not None:
        ask = replace(ask, **HEARD_INSTEAD[script.deaf])
    if script.refuses is not None and HOLDS[script.refuses](ask):
        message = script.message or f"This model does not support {script.refuses}."
        script = replace(script, status=400, message=message)
    return ask, script
