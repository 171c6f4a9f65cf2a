from typing import Any

import pytest

from tests.translator.core.asking import READ, assistant, call, rendered, result, sent, system, user
from translator.core.errors import InvalidRequest
from translator.core.openai_chat.schemas import clean_schema
from translator.core.profiles import profile_named

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
LONG = "mcp__build-farm-control__list_failed_pipeline_jobs_of_one_merge_request"
TO_READ = {"type": "tool", "name": "Read"}
HISTORY = [user("Go"), assistant(call("t1")), user(result("t1"))]


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


def keys(body: dict[str, Any]) -> dict[str, Any]:
    return {key: body[key] for key in ("tool_choice", "parallel_tool_calls") if key in body}


def test_a_tool_becomes_a_function_with_the_keys_upstreams_know():
    tool = {
        **READ,
        "type": "custom",
        "description": "Reads.",
        "strict": True,
        "cache_control": {"type": "ephemeral"},
        "defer_loading": True,
        "eager_input_streaming": True,
    }

    assert sent(tools=[tool])["tools"] == [
        {
            "type": "function",
            "function": {"name": "Read", "description": "Reads.", "parameters": READ["input_schema"]},
        }
    ]


def test_strict_is_sent_where_the_profile_takes_it():
    assert sent(tools=[READ | {"strict": True}], switches={"strict_tools": True})["tools"][0]["function"]["strict"]


def test_examples_are_told_in_the_description():
    tools = [READ | {"description": "Reads.", "input_examples": [{"path": "/a"}, {"path": "/b"}]}, {"name": "x"}]

    assert sent(tools=tools)["tools"][0]["function"]["description"] == (
        'Reads.\n\nExamples:\n{"path":"/a"}\n{"path":"/b"}'
    )


KINDS: list[tuple[dict[str, Any], list[str]]] = [
    (SEARCH, []),
    (FETCH, []),
    ({"type": "mcp_toolset", "mcp_server_name": "x"}, []),
    ({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}, []),
    ({"type": "computer_toolset_20260801"}, []),
    (READ | {"name": "sandboxed", "allowed_callers": ["code_execution_20250825"]}, []),
    (READ | {"name": "both", "allowed_callers": ["direct", "code_execution_20250825"]}, ["both"]),
    ({"type": "bash_20250124", "name": "bash"}, ["bash"]),
    ({"type": "text_editor_20250124", "name": "str_replace_editor"}, ["str_replace_editor"]),
    ({"type": "text_editor_20250728"}, ["str_replace_based_edit_tool"]),
    ({"type": "memory_20250818", "name": "memory"}, ["memory"]),
    ({"type": "computer_20251124", "name": "computer"}, ["computer"]),
    (READ | {"type": "a_later_kind", "name": "later"}, ["later"]),
    ({"type": "a_later_kind", "name": "later"}, []),
]


@pytest.mark.parametrize(("tool", "offered"), KINDS)
def test_only_tools_that_the_client_runs_are_offered(tool: dict[str, Any], offered: list[str]):
    answer = rendered(tools=[READ, tool])

    assert names(answer.body) == ["Read", *offered]
    assert answer.notes == (() if offered else ("server_tool_dropped",))


def test_the_computer_tool_says_how_large_the_screen_is():
    tool = {"type": "computer_20250124", "name": "computer", "display_width_px": 1024, "display_height_px": 768}

    assert "1024 x 768" in sent(tools=[tool])["tools"][0]["function"]["description"]


def test_a_toolset_alone_is_refused():
    message = r'^tools\.1: client toolset "browser_toolset_20260801" is not supported by this gateway$'

    with pytest.raises(InvalidRequest, match=message):
        sent(tools=[SEARCH, {"type": "browser_toolset_20260801"}])


@pytest.mark.parametrize("choice", [None, {"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "web_search"}])
def test_without_tools_left_nothing_is_said_of_tools(choice: dict[str, Any] | None):
    assert sent(tools=[SEARCH, FETCH], tool_choice=choice).keys() == {"model", "max_tokens", "messages"}


def test_an_empty_list_of_tools_is_not_sent():
    body = sent(tools=[], tool_choice={"type": "auto", "disable_parallel_tool_use": True})

    assert body.keys() == {"model", "max_tokens", "messages"}


CHOICES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "auto": ({"type": "auto"}, {}, {}),
    "auto, said": ({"type": "auto"}, {"tool_choice_auto": "send"}, {"tool_choice": "auto"}),
    "any": ({"type": "any"}, {}, {"tool_choice": "required"}),
    "any, by another word": ({"type": "any"}, {"tool_choice_any": "any"}, {"tool_choice": "any"}),
    "none": ({"type": "none"}, {}, {"tool_choice": "none"}),
    "one tool": (TO_READ, {}, {"tool_choice": {"type": "function", "function": {"name": "Read"}}}),
    "one tool, as any": (TO_READ, {"tool_choice_tool": "required"}, {"tool_choice": "required"}),
    "one at a time": ({"type": "auto", "disable_parallel_tool_use": True}, {}, {"parallel_tool_calls": False}),
    "any, one at a time": (
        {"type": "any", "disable_parallel_tool_use": True},
        {},
        {"parallel_tool_calls": False, "tool_choice": "required"},
    ),
    "several": ({"type": "auto", "disable_parallel_tool_use": False}, {}, {}),
    "one at a time, where the upstream knows no key": (
        {"type": "auto", "disable_parallel_tool_use": True},
        {"parallel_tool_calls": False},
        {},
    ),
}


@pytest.mark.parametrize(("choice", "switches", "expected"), CHOICES.values(), ids=CHOICES)
def test_the_choice_is_said_in_the_upstreams_words(
    choice: dict[str, Any], switches: dict[str, Any], expected: dict[str, Any]
):
    answer = rendered(tools=[READ], tool_choice=choice, switches=switches)

    assert keys(answer.body) == expected
    assert answer.answer.parallel_tools is not choice.get("disable_parallel_tool_use", False)
    assert answer.answer.forced_tool == choice.get("name")


ASKED: list[tuple[dict[str, Any], str]] = [
    ({"type": "any"}, "Answer by calling one of the tools."),
    (TO_READ, "Answer by calling the tool Read."),
]


@pytest.mark.parametrize(("choice", "words"), ASKED)
def test_a_choice_without_a_key_is_asked_for(choice: dict[str, Any], words: str):
    body = sent(tools=[READ], tool_choice=choice, profile="ollama")

    assert keys(body) == {}
    assert body["messages"][0] == system(words)


def test_none_may_mean_no_tools_unless_the_history_calls_them():
    fields: dict[str, Any] = {"tools": [READ], "tool_choice": {"type": "none"}, "profile": "ollama"}

    assert names(sent(**fields)) == []
    assert names(sent(*HISTORY, **fields)) == ["Read"]


def test_a_choice_of_a_tool_that_nobody_offered_is_refused():
    with pytest.raises(InvalidRequest, match=r'^tool_choice\.name: tool "Write" not found in tools$'):
        sent(tools=[READ], tool_choice={"type": "tool", "name": "Write"})


def test_a_choice_without_any_tools_is_dropped():
    assert keys(sent(tool_choice=TO_READ)) == {}


def test_long_and_odd_names_are_shortened_apart_and_restored():
    tools = [READ | {"name": name} for name in (LONG, f"{LONG}_in_detail", "a.b", "2b", "Read")]

    answer = rendered(
        user("Go"),
        assistant(call("t1", LONG)),
        user(result("t1")),
        tools=tools,
        tool_choice={"type": "tool", "name": LONG},
    )

    shortened = names(answer.body)
    assert len(set(shortened)) == 5
    assert all(len(name) <= 64 and name.replace("-", "_").isidentifier() for name in shortened)
    assert shortened[4] == "Read"
    assert [answer.answer.tool_names[name] for name in shortened[:4]] == [tool["name"] for tool in tools[:4]]
    assert answer.body["messages"][1]["tool_calls"][0]["function"]["name"] == shortened[0]
    assert answer.body["tool_choice"]["function"]["name"] == answer.answer.forced_tool == shortened[0]
    assert answer.answer.tools == frozenset(shortened)


def test_tools_of_the_history_are_defined_where_the_upstream_wants_that():
    assert names(sent(*HISTORY)) == []
    assert names(sent(*HISTORY, switches={"tools_of_history": True})) == ["Read"]
    assert names(sent(*HISTORY, tools=[READ], switches={"tools_of_history": True})) == ["Read"]


def change(kind: str, **tool: Any) -> dict[str, Any]:
    return system([{"type": kind, "tool": tool}])


CHANGES: list[tuple[list[dict[str, Any]], list[str]]] = [
    ([change("tool_removal", type="tool_reference", name="Read")], []),
    (
        [
            change("tool_removal", type="tool_reference", name="Read"),
            change("tool_addition", type="tool_reference", name="Read"),
        ],
        ["Read"],
    ),
    ([change("tool_addition", type="tool_definition", definition={"name": "New"})], ["Read", "New"]),
    ([change("tool_addition", type="tool_definition", definition=SEARCH)], ["Read"]),
    ([change("tool_addition", type="mcp_toolset_reference")], ["Read"]),
]


@pytest.mark.parametrize(("changes", "offered"), CHANGES)
def test_tools_that_came_and_went_amid_the_conversation(changes: list[dict[str, Any]], offered: list[str]):
    assert names(sent(user("Go"), *changes, tools=[READ])) == offered


def test_a_tool_that_came_later_can_be_forced():
    addition = change("tool_addition", type="tool_definition", definition={"name": "New"})

    body = sent(user("Go"), addition, tool_choice={"type": "tool", "name": "New"})

    assert keys(body) == {"tool_choice": {"type": "function", "function": {"name": "New"}}}


def schema(given: dict[str, Any], profile: str = "plain", **switches: Any) -> dict[str, Any]:
    return clean_schema(given, profile_named(profile, switches))


SCHEMAS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "nothing": ("plain", {}, {"type": "object", "properties": {}}),
    "no properties": (
        "plain",
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": False, "properties": {}},
    ),
    "another type": ("plain", {"type": ["object", "null"]}, {"type": "object", "properties": {}}),
    "$schema": (
        "plain",
        {"$schema": "x", "type": "object", "properties": {"q": {"type": "string", "minLength": 1}}},
        {"type": "object", "properties": {"q": {"type": "string", "minLength": 1}}},
    ),
    "properties named like keywords": (
        "gemini",
        {"properties": {"$schema": {"const": 1}, "const": {"type": "string"}}, "required": ["$schema", "const"]},
        {
            "type": "object",
            "properties": {"$schema": {}, "const": {"type": "string"}},
            "required": ["$schema", "const"],
        },
    ),
    "a value that looks like a schema": (
        "gemini",
        {"properties": {"a": {"default": {"const": 1}, "enum": [{"const": 1}]}}},
        {"type": "object", "properties": {"a": {"default": {"const": 1}, "enum": [{"const": 1}]}}},
    ),
    "keywords in every place a schema may stand": (
        "gemini",
        {
            "properties": {
                "a": {"items": {"const": 1}, "type": "array"},
                "b": {"items": [{"const": 1}, True]},
                "c": {"anyOf": [{"const": 1}, {"not": {"const": 1}}]},
            },
        },
        {
            "type": "object",
            "properties": {
                "a": {"items": {}, "type": "array"},
                "b": {"items": [{}, True]},
                "c": {"anyOf": [{}, {"not": {}}]},
            },
        },
    ),
    "a list of anything": (
        "plain",
        {"properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
    ),
    "a list of anything, or null": (
        "plain",
        {"properties": {"a": {"type": ["array", "null"]}}},
        {"type": "object", "properties": {"a": {"type": ["array", "null"], "items": {}}}},
    ),
    "a pattern that only some can read": (
        "plain",
        {"properties": {"a": {"pattern": r"^[^\p{Cc}]$"}, "b": {"pattern": "^a$"}, "pattern": {"pattern": 7}}},
        {"type": "object", "properties": {"a": {}, "b": {"pattern": "^a$"}, "pattern": {"pattern": 7}}},
    ),
    "what llama.cpp can't make a grammar of": (
        "llama_cpp",
        {"properties": {"a": {"pattern": "^a$", "maxLength": 65536, "format": "date"}, "format": {"type": "string"}}},
        {"type": "object", "properties": {"a": {}, "format": {"type": "string"}}},
    ),
    "words that stand twice": (
        "plain",
        {"properties": {"a": {"enum": ["x", 1, "x", True, 1]}}, "required": ["a", "a"]},
        {"type": "object", "properties": {"a": {"enum": ["x", 1, True]}}, "required": ["a"]},
    ),
    "null for none": (
        "plain",
        {"properties": {"a": {"enum": None, "default": None, "const": None}}, "required": None, "$defs": None},
        {"type": "object", "properties": {"a": {"default": None, "const": None}}},
    ),
    "a reference at the top": (
        "plain",
        {"$ref": "#/definitions/A", "definitions": {"A": {"$ref": "#/definitions/B"}, "B": {"properties": {"q": {}}}}},
        {
            "type": "object",
            "properties": {"q": {}},
            "definitions": {"A": {"$ref": "#/definitions/B"}, "B": {"properties": {"q": {}}}},
        },
    ),
    "a reference at the top that leads to itself": (
        "plain",
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"type": "object", "properties": {}, "$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
    ),
    "a union of references at the top": (
        "plain",
        {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/none"}], "$defs": {"A": {"properties": {"q": {}}}}},
        {"type": "object", "properties": {"q": {}}, "$defs": {"A": {"properties": {"q": {}}}}},
    ),
    "what else OpenAI refuses at the top": (
        "plain",
        {"properties": {"q": {"not": {}}}, "not": {"required": ["z"]}, "enum": [{}]},
        {"type": "object", "properties": {"q": {"not": {}}}},
    ),
    "a union at the top": (
        "plain",
        {
            "properties": {"id": {"type": "string"}},
            "required": ["id"],
            "anyOf": [{"required": ["b"], "properties": {"b": {"type": "null"}}}, {"required": ["id"]}, True],
        },
        {"type": "object", "properties": {"b": {"type": "null"}, "id": {"type": "string"}}, "required": ["id"]},
    ),
    "a union at the top, where it is taken": (
        "vllm",
        {"anyOf": [{"required": ["id"]}]},
        {"type": "object", "properties": {}, "anyOf": [{"required": ["id"]}]},
    ),
    "references are kept": (
        "plain",
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
    ),
    "references are written out": (
        "gemini",
        {
            "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}, "b": {"$ref": "#/definitions/B"}},
            "$defs": {"A": {"type": "string", "description": "theirs"}},
            "definitions": {"B": {"items": {"$ref": "#/$defs/A"}}},
        },
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "mine"},
                "b": {"items": {"type": "string", "description": "theirs"}},
            },
        },
    ),
    "a reference to itself ends": (
        "gemini",
        {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"next": {"$ref": "#/$defs/A", "title": "t"}}}}},
        {"type": "object", "properties": {"next": {"title": "t"}}},
    ),
    "a reference to nowhere is open": (
        "gemini",
        {
            "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "https://e.example"}, "c": {"$ref": "#/$defs/C"}},
            "$defs": {"C": True},
        },
        {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}},
    ),
    "definitions that are none": ("gemini", {"$defs": [], "$ref": "#/$defs/A"}, {"type": "object", "properties": {}}),
}


@pytest.mark.parametrize(("profile", "given", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_is_cleaned(profile: str, given: dict[str, Any], expected: dict[str, Any]):
    assert schema(given, profile) == expected


def test_references_that_double_at_each_step_are_cut_off():
    doubling = {
        f"D{i}": {"properties": {"a": {"$ref": f"#/$defs/D{i + 1}"}, "b": {"$ref": f"#/$defs/D{i + 1}"}}}
        for i in range(30)
    }

    cleaned = schema({"$ref": "#/$defs/D0", "$defs": doubling}, "gemini")

    assert repr(cleaned).count("properties") <= 101
