"""Tool schemas as upstreams take them.

Keywords are told from properties of the same name: only places that hold a schema are cleaned.

Source: https://json-schema.org/draft/2020-12/schema (applicator vocabulary) and the upstreams' error messages.
Not done: `$ref` to anything but a definition in the same schema.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from translator.core.switches import Profile

__all__ = ["clean_keywords", "clean_schema", "is_closed", "without_repeats"]

#: Keywords whose value is a schema, a list of schemas, or an object of named schemas.
ONE = frozenset(
    {"items", "not", "if", "then", "else", "additionalProperties", "propertyNames", "contains", "unevaluatedProperties"}
)
MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

UNIONS = ("anyOf", "oneOf", "allOf")
#: What OpenAI refuses at the top of a schema.
REFUSED_AT_TOP = (*UNIONS, "enum", "not")
DEFINITIONS = ("$defs", "definitions")
#: Keywords for which null is a value; in others some servers write it for "none".
NULLABLE = frozenset({"const", "default"})

#: Lists in which nothing may stand twice.
SETS = frozenset({"required", "enum", "type"})
#: Classes of Unicode in a pattern, which Claude Code's own tools use: Python, Rust and OpenAI each refuse some that the
#: others take, and with one pattern the whole request.
UNPORTABLE = re.compile(r"\\[pP]\{")

#: References written out and schemas cleaned while there are some to write out; what is beyond is left open.
MAX_INLINED = 100
MAX_SCHEMAS = 5_000
#: References that are followed from the top.
MAX_STEPS = 8


def clean_schema(schema: Mapping[str, Any] | None, profile: Profile) -> dict[str, Any]:
    """Return the schema of a tool's input, an object at its top, without what the upstream refuses."""
    root = (schema or {}) if profile.schema_inline_refs else _without_reference(schema or {})
    cleaned = clean_keywords(root, profile)
    if not profile.schema_top_unions:
        cleaned = _without_unions(cleaned)
    cleaned["type"] = "object"
    if not isinstance(cleaned.get("properties"), dict):
        cleaned["properties"] = {}
    return cleaned


def clean_keywords(schema: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Return a schema of anything without the keywords that the upstream refuses."""
    cleaned: dict[str, Any] = _Cleaner(schema, profile).clean(schema)
    return {key: value for key, value in cleaned.items() if key not in DEFINITIONS or not profile.schema_inline_refs}


def _without_reference(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return a schema with what a reference at its top points to in its place: upstreams look for properties there.

    Args:
        schema: The schema.
        root: Where the definitions are, unless in the schema itself.
    """
    for _ in range(MAX_STEPS):
        target = _target(root or schema, schema.get("$ref"))
        if target is None:
            break
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _target(root: Mapping[str, Any], reference: Any) -> dict[str, Any] | None:
    """Return the definition that a reference names; None when there is none."""
    if not isinstance(reference, str):
        return None
    place, _, name = reference.removeprefix("#/").partition("/")
    named = root.get(place) if place in DEFINITIONS else None
    target = named.get(name) if isinstance(named, dict) else None
    return target if isinstance(target, dict) else None


def _without_unions(schema: dict[str, Any]) -> dict[str, Any]:
    """Offer the properties of all variants and require none of them: wider than the union, never narrower."""
    unions = [variant for key in UNIONS if isinstance(schema.get(key), list) for variant in schema[key]]
    variants = [_without_reference(variant, schema) for variant in unions if isinstance(variant, dict)]
    properties: dict[str, Any] = {}
    for part in (*variants, schema):
        if isinstance(part.get("properties"), dict):
            properties |= part["properties"]
    plain = {key: value for key, value in schema.items() if key not in REFUSED_AT_TOP}
    return {**plain, "properties": properties} if variants else plain


class _Cleaner:
    """One walk over one schema; knows the definitions and how many were written out."""

    def __init__(self, root: Mapping[str, Any], profile: Profile) -> None:
        self._drop = frozenset(profile.schema_drop)
        self._inline = profile.schema_inline_refs
        self._root = root
        self._inlined = 0
        self._schemas = 0
        self._open: list[str] = []

    def clean(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        self._schemas += 1
        if self._inline and isinstance(schema.get("$ref"), str):
            return self._unfold(schema)
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and UNPORTABLE.search(pattern):
            schema = {key: value for key, value in schema.items() if key != "pattern"}
        cleaned = {
            key: self._value(key, value)
            for key, value in schema.items()
            if key not in self._drop and (value is not None or key in NULLABLE)
        }
        kind = cleaned.get("type")
        if kind == "array" or (isinstance(kind, list) and "array" in kind):
            # OpenAI: "array schema missing items".
            cleaned.setdefault("items", {})
        return cleaned

    def _value(self, key: str, value: Any) -> Any:
        if key in NAMED and isinstance(value, dict):
            return {name: self.clean(schema) for name, schema in value.items()}
        if key in MANY and isinstance(value, list):
            return [self.clean(schema) for schema in value]
        if key in SETS and isinstance(value, list):
            return without_repeats(value)
        return self.clean(value) if key in ONE else value

    def _unfold(self, schema: dict[str, Any]) -> Any:
        reference = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = _target(self._root, reference)
        if target is None or reference in self._open or self._is_spent():
            return self.clean(beside)
        self._inlined += 1
        self._open.append(reference)
        try:
            return self.clean({**target, **beside})
        finally:
            self._open.pop()

    def _is_spent(self) -> bool:
        return self._inlined >= MAX_INLINED or self._schemas >= MAX_SCHEMAS


def is_closed(schema: Any) -> bool:
    """Tell whether each object in a schema requires all of its properties and takes no others, as `strict` asks for."""
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        required, names = schema.get("required"), properties if isinstance(properties, dict) else {}
        has_all = set(names) <= set(required if isinstance(required, list) else ())
        if schema.get("additionalProperties") is not False or not has_all:
            return False
    return all(map(is_closed, _children(schema)))


def _children(schema: Mapping[str, Any]) -> Iterator[Any]:
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            yield from value.values()
        elif key in MANY and isinstance(value, list):
            yield from value
        elif key in ONE:
            yield value


def without_repeats(values: Iterable[Any]) -> list[Any]:
    """Return the values in order, each once."""
    return list({(type(value), repr(value)): value for value in values}.values())
