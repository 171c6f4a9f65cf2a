"""Tools that Anthropic defines and the client runs, written out as ordinary function tools.

A model that was not trained on them needs their schema; the client gets a `tool_use` of the same name either way.

Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use (bash, text editor, memory and computer use
pages, read 2026-11-30).
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["client_tool"]

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
POINT = {"type": "array", "items": {"type": "integer"}, "description": "x and y in pixels"}

BASH: Mapping[str, Any] = {
    "description": "Run a command in a persistent bash session.",
    "input_schema": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command to run; required unless restarting"},
            "restart": {"type": "boolean", "description": "True restarts the session"},
        },
    },
}

TEXT_EDITOR: Mapping[str, Any] = {
    "description": "View, create and edit text files.",
    "input_schema": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
            "path": {"type": "string", "description": "Absolute path of a file or directory"},
            "file_text": {"type": "string", "description": "Content of the file, for create"},
            "old_str": {"type": "string", "description": "Text to replace, found exactly once, for str_replace"},
            "new_str": {"type": "string", "description": "Text to put there, for str_replace"},
            "insert_line": {"type": "integer", "description": "Line after which to insert, 0 for the start"},
            "insert_text": {"type": "string", "description": "Text to insert, for insert"},
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "First and last line to view, counted from 1; -1 is the end",
            },
        },
        "required": ["command", "path"],
    },
}

MEMORY: Mapping[str, Any] = {
    "description": "Keep notes in files under /memories that last beyond this conversation.",
    "input_schema": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
            "path": {"type": "string", "description": "Path under /memories"},
            "view_range": {"type": "array", "items": {"type": "integer"}},
            "file_text": TEXT,
            "old_str": TEXT,
            "new_str": TEXT,
            "insert_line": NUMBER,
            "insert_text": TEXT,
            "old_path": TEXT,
            "new_path": TEXT,
        },
        "required": ["command"],
    },
}

COMPUTER: Mapping[str, Any] = {
    "description": "See the screen and use mouse and keyboard. Take a screenshot to see what an action did.",
    "input_schema": {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": [
                    "screenshot",
                    "key",
                    "type",
                    "mouse_move",
                    "left_click",
                    "left_click_drag",
                    "right_click",
                    "middle_click",
                    "double_click",
                    "triple_click",
                    "left_mouse_down",
                    "left_mouse_up",
                    "cursor_position",
                    "scroll",
                    "hold_key",
                    "wait",
                    "zoom",
                ],
            },
            "coordinate": POINT,
            "start_coordinate": POINT,
            "text": {"type": "string", "description": "Text to type, or keys to press"},
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": NUMBER,
            "duration": {"type": "number", "description": "Seconds, for wait and hold_key"},
            "region": {"type": "array", "items": {"type": "integer"}, "description": "x0, y0, x1, y1 to zoom to"},
        },
        "required": ["action"],
    },
}

#: Beginning of the tool's type: its name where the client gives none, and what the model is told.
CLIENT_TOOLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bash_": ("bash", BASH),
    "text_editor_": ("str_replace_based_edit_tool", TEXT_EDITOR),
    "memory_": ("memory", MEMORY),
    "computer_2": ("computer", COMPUTER),
}


def client_tool(tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the function tool that stands for one of Anthropic's client tools; None when it is another kind."""
    for beginning, (name, definition) in CLIENT_TOOLS.items():
        if tool["type"].startswith(beginning):
            return {"name": tool.get("name") or name, **definition, "description": _description(tool, definition)}
    return None


def _description(tool: Mapping[str, Any], definition: Mapping[str, Any]) -> str:
    width, height = tool.get("display_width_px"), tool.get("display_height_px")
    size = f" The screen is {width} x {height} pixels." if width and height else ""
    return f"{definition['description']}{size}"
