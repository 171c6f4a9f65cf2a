"""The Messages API's request as a JSON schema, for the page that documents the gateway's API.

It describes what `checks` enforces and the fields that are translated. Objects stay open: what it does not name is
passed over, not refused.
"""

from typing import Any

__all__ = ["request_schema"]

TEXT = {"type": "string"}
BLOCK = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string", "examples": ["text", "image", "document", "tool_use", "tool_result"]}},
}
CONTENT = {"oneOf": [TEXT, {"type": "array", "items": BLOCK}]}

MESSAGE = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "role": {"enum": ["user", "assistant", "system"]},
        "content": {**CONTENT, "description": "Required except for system messages."},
    },
}

TOOL = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": "Absent or `custom` for a tool of the client's own."},
        "name": {"type": "string", "minLength": 1},
        "description": TEXT,
        "input_schema": {"type": "object", "description": "JSON schema of the tool's input."},
    },
}

TOOL_CHOICE = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["auto", "any", "tool", "none"]},
        "name": {"type": "string", "description": "The tool to call, with type `tool`."},
        "disable_parallel_tool_use": {"type": "boolean"},
    },
}

PROPERTIES: dict[str, Any] = {
    "model": {"type": "string", "minLength": 1, "maxLength": 256, "description": "A model alias of this gateway."},
    "max_tokens": {"type": "integer", "minimum": 0},
    "messages": {"type": "array", "minItems": 1, "maxItems": 100_000, "items": MESSAGE},
    "system": CONTENT,
    "stream": {"type": "boolean", "default": False},
    "temperature": {"type": "number"},
    "top_p": {"type": "number"},
    "top_k": {"type": "integer"},
    "stop_sequences": {"type": "array", "items": TEXT},
    "tools": {"type": "array", "items": TOOL},
    "tool_choice": TOOL_CHOICE,
    "thinking": {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"type": "string", "examples": ["enabled", "adaptive", "disabled"]},
            "budget_tokens": {"type": "integer"},
            "display": {"type": "string", "examples": ["summarized", "omitted"]},
        },
    },
    "output_config": {
        "type": "object",
        "properties": {
            "effort": {"type": "string", "examples": ["low", "medium", "high", "xhigh", "max"]},
            "format": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": TEXT, "schema": {"type": "object"}},
            },
        },
    },
    "metadata": {"type": "object", "properties": {"user_id": TEXT}},
}


def request_schema(*, for_counting: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a request.

    Args:
        for_counting: Describe a request of `count_tokens`, which needs no `max_tokens`.
    """
    required = ["model", "messages"] if for_counting else ["model", "max_tokens", "messages"]
    title = "CountTokensRequest" if for_counting else "MessagesRequest"
    return {"title": title, "type": "object", "required": required, "properties": PROPERTIES}
