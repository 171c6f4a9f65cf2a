"""Schemas for upstreams that refused richer ones: each keyword that a report names, under what it says."""

from typing import Any

import pytest

from translator.core.openai_chat.plain_schemas import in_plain_words, plain_schema

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}

PROPERTIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "anything": ({}, {"type": "string"}),
    "true": (True, {"type": "string"}),
    "limits": (
        {"type": "string", "description": "Day", "pattern": "^a$", "format": "date", "minLength": 1, "title": "D"},
        {"type": "string", "description": "Day"},
    ),
    "a description of the wrong kind": ({"type": "integer", "description": 7}, {"type": "integer"}),
    "words": ({"enum": ["a", "", None, "a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    "numbers": ({"type": "integer", "enum": [1, 2]}, {"type": "integer"}),
    "one word": ({"const": "a"}, {"type": "string", "enum": ["a"]}),
    "one of several words": (
        {"anyOf": [{"const": "a", "title": "A"}, {"const": "b"}], "description": "d"},
        {"type": "string", "enum": ["a", "b"], "description": "d"},
    ),
    "several types": ({"type": ["null", "integer", "string"]}, {"type": "integer"}),
    "a type nobody knows": ({"type": "date"}, {"type": "string"}),
    "this or null": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer"}),
    "this or not at all": ({"anyOf": [{"not": {}}, {"type": "integer"}]}, {"type": "integer"}),
    "a text or a list": (
        {"oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        {"type": "array", "items": {"type": "string"}},
    ),
    "a type beside a union": ({"type": "string", "anyOf": [{"format": "date"}, True]}, {"type": "string"}),
    "either object": (
        {"oneOf": [NAME, PLACE]},
        {"type": "object", "properties": {"name": {"type": "string"}, "place": {"type": "string"}}},
    ),
    "both objects": (
        {"allOf": [NAME, {"$ref": "#/$defs/place"}, True]},
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "place": {"type": "string"}},
            "required": ["name", "place"],
        },
    ),
    "an object, or null": ({"anyOf": [NAME, {"type": "null"}]}, NAME),
    "an object of anything": (
        {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"pattern": "a"}},
        {"type": "object", "properties": {}},
    ),
    "an object that requires what it does not have": (
        {"properties": {"name": {"type": "string"}}, "required": ["name", "name", "other"]},
        NAME,
    ),
    "a list of anything": ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
    "a list of several things": (
        {"items": [{"type": "number"}, {"type": "string"}]},
        {"type": "array", "items": {"type": "number"}},
    ),
    "a list of lists": (
        {"type": "array", "items": {"type": "array"}},
        {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    ),
    "a reference": ({"$ref": "#/$defs/place", "description": "mine"}, {**PLACE, "description": "mine"}),
}


@pytest.mark.parametrize(("given", "expected"), PROPERTIES.values(), ids=PROPERTIES)
def test_a_property_becomes(given: Any, expected: dict[str, Any]):
    schema = {"type": "object", "properties": {"a": given}, "$defs": {"place": PLACE}, "additionalProperties": False}

    assert plain_schema(schema) == {"type": "object", "properties": {"a": expected}}
    assert plain_schema(plain_schema(schema)) == plain_schema(schema)


def test_variants_at_the_top_require_nothing_of_each_other():
    schema = {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}

    assert plain_schema(schema) == {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


def test_tools_of_both_apis_keep_all_else():
    function = {"name": "Read", "description": "Reads.", "strict": False, "parameters": {"properties": {"a": {}}}}
    plain = {**function, "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}

    assert in_plain_words([{"type": "function", "function": function}]) == [{"type": "function", "function": plain}]
    assert in_plain_words([{"type": "function", **function}]) == [{"type": "function", **plain}]
