"""Tool schemas as upstreams take them.

Keywords are told from properties of the same name: only places that hold a schema are cleaned.

Source: https://json-schema.org/draft/2020-12/schema (applicator vocabulary) and the upstreams' error messages.
Not done: `$ref` to anything but a definition in the same schema.
"""

from collections.abc import Mapping
from typing import Any

from translator.core.switches import Profile

__all__ = ["clean_schema"]

#: Keywords whose value is a schema, a list of schemas, or an object of named schemas.
ONE = frozenset(
    {"items", "not", "if", "then", "else", "additionalProperties", "propertyNames", "contains", "unevaluatedProperties"}
)
MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

UNIONS = ("anyOf", "oneOf", "allOf")
DEFINITIONS = ("$defs", "definitions")

#: References written out and schemas cleaned while there are some to write out; what is beyond is left open.
MAX_INLINED = 100
MAX_SCHEMAS = 5_000


def clean_schema(schema: Mapping[str, Any] | None, profile: Profile) -> dict[str, Any]:
    """Return the schema of a tool's input, an object at its top, without what the upstream refuses."""
    cleaned: dict[str, Any] = _Cleaner(schema or {}, profile).clean(schema or {})
    if profile.schema_inline_refs:
        cleaned = {key: value for key, value in cleaned.items() if key not in DEFINITIONS}
    if not profile.schema_top_unions:
        cleaned = _without_unions(cleaned)
    cleaned["type"] = "object"
    if not isinstance(cleaned.get("properties"), dict):
        cleaned["properties"] = {}
    return cleaned


def _without_unions(schema: dict[str, Any]) -> dict[str, Any]:
    """Offer the properties of all variants and require none of them: wider than the union, never narrower."""
    variants = [variant for key in UNIONS if isinstance(schema.get(key), list) for variant in schema[key]]
    properties: dict[str, Any] = {}
    for part in (*variants, schema):
        if isinstance(part, dict) and isinstance(part.get("properties"), dict):
            properties |= part["properties"]
    plain = {key: value for key, value in schema.items() if key not in UNIONS}
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
        cleaned = {key: self._value(key, value) for key, value in schema.items() if key not in self._drop}
        if cleaned.get("type") == "array":
            # OpenAI: "array schema missing items".
            cleaned.setdefault("items", {})
        return cleaned

    def _value(self, key: str, value: Any) -> Any:
        if key in NAMED and isinstance(value, dict):
            return {name: self.clean(schema) for name, schema in value.items()}
        if key in MANY and isinstance(value, list):
            return [self.clean(schema) for schema in value]
        return self.clean(value) if key in ONE else value

    def _unfold(self, schema: dict[str, Any]) -> Any:
        reference = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = self._target(reference)
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

    def _target(self, reference: str) -> dict[str, Any] | None:
        place, _, name = reference.removeprefix("#/").partition("/")
        named = self._root.get(place) if place in DEFINITIONS else None
        target = named.get(name) if isinstance(named, dict) else None
        return target if isinstance(target, dict) else None
