"""What a tool's schema says of the types of its arguments, as far as that is cheap to tell.

Only the arguments themselves are looked at, not what is in them; `$ref` and what else takes a walk says nothing.
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["TYPE_OF_OPENER", "fits", "from_text", "properties_of", "required_of", "types_of"]

TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
TYPE_OF_OPENER = {"{": "object", "[": "array"}
INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schemas of a tool's arguments, by name."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def required_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the arguments that a tool must have."""
    required = schema.get("required")
    return frozenset(name for name in required if isinstance(name, str)) if isinstance(required, list) else frozenset()


def types_of(schema: Any) -> frozenset[str]:
    """Return the types that a value may have; none when any may do, or nobody can tell."""
    match schema:
        case {"type": str(name)}:
            named = frozenset({name})
        case {"type": list(names)}:
            named = frozenset(name for name in names if isinstance(name, str))
        case {"anyOf": list(variants)} | {"oneOf": list(variants)}:
            each = [types_of(variant) for variant in variants]
            named = frozenset().union(*each) if all(each) else frozenset()
        case {"enum": list(values)} if all(isinstance(value, str) for value in values):
            named = frozenset({"string"})
        case _:
            named = frozenset()
    return named if named <= TYPES else frozenset()


def fits(scalar: str, types: frozenset[str]) -> bool:
    """Tell whether a number or word, as strict JSON, has one of the types."""
    match scalar:
        case "true" | "false":
            return "boolean" in types
        case "null":
            return "null" in types
        case _:
            return "number" in types or ("integer" in types and re.fullmatch(r"-?[0-9]+", scalar) is not None)


def from_text(text: str, types: frozenset[str]) -> str | None:
    """Return the scalar, as strict JSON, that a text stands for where a scalar is wanted; None when it is none."""
    text = text.strip()
    if "integer" in types and (found := INTEGER.fullmatch(text)):
        return found[1]
    if "number" in types and NUMBER.fullmatch(text):
        return text
    if "boolean" in types and text.lower() in ("true", "false"):
        return text.lower()
    if "null" in types and text.lower() in ("null", "none", ""):
        return "null"
    return None
