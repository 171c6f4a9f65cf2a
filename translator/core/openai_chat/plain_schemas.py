"""Tool schemas in the few words that every upstream takes.

Upstreams that hold a model to its schemas refuse whole requests for a keyword that their grammar doesn't know, in one
tool of many: `Failed to parse grammar`, `is not a valid moonshot flavored json schema`,
`function_declarations[3].parameters`. What is left here is wider than what the client said: a model may write what the
client refuses, but it can work.

Source: the upstreams' error messages as reported in public, and
https://ai.google.dev/api/caching#Schema, https://platform.moonshot.ai/docs (read 2026-12-01).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from translator.core.openai_chat.schemas import clean_schema, without_repeats
from translator.core.switches import Profile

__all__ = ["in_plain_words", "plain_schema"]

#: References are written out first, in bounds.
WRITTEN_OUT = Profile(schema_inline_refs=True, schema_top_unions=True)
UNIONS = ("anyOf", "oneOf")
TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean"})


def in_plain_words(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools of a chat or Responses body with plain schemas."""
    return [_in_plain_words(tool) for tool in tools]


def _in_plain_words(tool: Mapping[str, Any]) -> dict[str, Any]:
    if "function" in tool:
        return {**tool, "function": _in_plain_words(tool["function"])}
    return {**tool, "parameters": plain_schema(tool["parameters"])}


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's input in plain words; an object at its top."""
    return _plain(clean_schema(schema, WRITTEN_OUT)) | {"type": "object"}


def _plain(schema: Any) -> dict[str, Any]:
    """Return one schema with a type, its description, and what is in it; nothing else."""
    schema = _merged(schema if isinstance(schema, dict) else {})
    kind = _type(schema)
    plain: dict[str, Any] = {"type": kind}
    if isinstance(schema.get("description"), str):
        plain["description"] = schema["description"]
    match kind:
        case "object":
            properties = _object(schema.get("properties"))
            plain["properties"] = {name: _plain(value) for name, value in properties.items()}
            if required := [name for name in without_repeats(_list(schema.get("required"))) if name in properties]:
                plain["required"] = required
        case "array":
            items = schema.get("items")
            plain["items"] = _plain(items[0] if isinstance(items, list) and items else items)
        case "string":
            if words := _words(schema):
                plain["enum"] = words
        case _:
            pass
    return plain


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with what its unions offer in their place: the properties of all objects, else one variant."""
    everywhere = [variant for variant in _list(schema.get("allOf")) if isinstance(variant, dict)]
    variants = [variant for key in UNIONS for variant in _list(schema.get(key)) if _is_meant(variant)]
    chosen = [variant for variant in variants if _type(variant) == _type(variants[0])]
    properties: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for part in (*everywhere, *chosen, {key: value for key, value in schema.items() if key not in (*UNIONS, "allOf")}):
        properties |= _object(part.get("properties"))
        merged = {**merged, **part}
    required = [
        name
        for part in (*everywhere, *(chosen if len(chosen) == 1 else ()), schema)
        for name in _list(part.get("required"))
    ]
    words = [word for variant in chosen for word in _words(variant)]
    merged |= {"properties": properties, "required": required} if properties else {}
    return merged | ({"enum": words} if len(chosen) > 1 and len(words) >= len(chosen) else {})


def _is_meant(variant: Any) -> bool:
    """Tell whether a variant says what a value may be: not null, and not only what it may not be."""
    return isinstance(variant, dict) and variant.get("type") != "null" and variant.keys() != {"not"}


def _type(schema: Mapping[str, Any]) -> str:
    """Return the first type that a schema names, or what its keywords let expect."""
    kinds = schema.get("type")
    for kind in kinds if isinstance(kinds, list) else (kinds,):
        if isinstance(kind, str) and kind in TYPES:
            return kind
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _words(schema: Mapping[str, Any]) -> list[str]:
    """Return the words that a value may be, where they are words; some upstreams take no empty one."""
    words = _list(schema.get("enum")) or [schema.get("const")]
    return without_repeats(word for word in words if isinstance(word, str) and word)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
