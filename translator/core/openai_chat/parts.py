"""Content that is a list of parts, as Mistral's reasoning models and some others send it."""

from typing import Any

__all__ = ["split_content"]


def split_content(parts: list[Any]) -> list[tuple[str, str]]:
    """Return the parts as (`thinking` or `text`, text), in order; references and media are left out."""
    return [(kind, text) for part in parts for kind, text in _pieces(part) if text]


def _pieces(part: Any) -> list[tuple[str, str]]:
    match part:
        case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "text": str(text)}:
            return [("thinking", text)]
        case {"type": "thinking", "thinking": list(parts)}:
            return [("thinking", inner["text"]) for inner in parts if _has_text(inner)]
        case {"type": "text" | "output_text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return [("text", text)]
        case str(text):
            return [("text", text)]
        case _:
            return []


def _has_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)
