from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.translator.core.asking import READ, asked, result, system, text, user
from translator.core.anthropic.request import Thinking, ThinkingMode, parse_request
from translator.core.anthropic.schema import request_schema
from translator.core.errors import InvalidRequest
from translator.core.strict_json import JsonLimits, load_object

LEGAL: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}


def content(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": ""}, "model: String should have at least 1 character"),
    ({"model": 5}, "model: Input should be a valid string"),
    ({"model": "m" * 257}, "model: String should have at most 256 characters"),
    ({"max_tokens": "5"}, "max_tokens: Input should be a valid integer"),
    ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
    ({"max_tokens": 1.5}, "max_tokens: Input should be a valid integer"),
    ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
    ({"max_tokens": 2**31}, "max_tokens: Input should be less than or equal to 2147483647"),
    ({"messages": "hi"}, "messages: Input should be a valid list"),
    ({"messages": []}, "messages: at least one message is required"),
    ({"messages": ["hi"]}, "messages.0: Input should be a valid dictionary"),
    ({"messages": [{"content": "Hi"}]}, "messages.0.role: Field required"),
    (
        {"messages": [{"role": "tool", "content": "Hi"}]},
        "messages.0.role: Input should be 'user', 'assistant' or 'system'",
    ),
    ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
    ({"messages": [{"role": "assistant", "content": None}]}, "messages.0.content: Field required"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: Input should be a valid string or array"),
    (content("hi"), "messages.0.content.0: Input should be a valid dictionary"),
    (content({"text": "hi"}), "messages.0.content.0.type: Field required"),
    (content({"type": None}), "messages.0.content.0.type: Input should be a valid string"),
    (content({"type": "text"}), "messages.0.content.0.text: Field required"),
    (content({"type": "image"}), "messages.0.content.0.source: Field required"),
    (content({"type": "image", "source": {}}), "messages.0.content.0.source.type: Field required"),
    (
        content({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
        "messages.0.content.0.source.data: Field required",
    ),
    (
        content(result("t", [{"type": "image", "source": {"type": "url"}}])),
        "messages.0.content.0.content.0.source.url: Field required",
    ),
    (content({"type": "tool_result"}), "messages.0.content.0.tool_use_id: Field required"),
    (
        content({"type": "tool_use", "id": "t", "name": "n", "input": {}}),
        "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
    ),
    (
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": []}]}]},
        "messages.0.content.0.input: Input should be a valid dictionary",
    ),
    ({"stream": "yes"}, "stream: Input should be a valid boolean"),
    ({"temperature": "hot"}, "temperature: Input should be a valid number"),
    ({"temperature": True}, "temperature: Input should be a valid number"),
    ({"stop_sequences": "x"}, "stop_sequences: Input should be a valid list"),
    ({"stop_sequences": [1]}, "stop_sequences.0: Input should be a valid string"),
    ({"tools": [{"description": "d"}]}, "tools.0.name: Field required"),
    ({"tools": [{"name": None}]}, "tools.0.name: Input should be a valid string"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        "tools.0: this is OpenAI's shape; send the request to /v1/chat/completions",
    ),
    (
        content({"type": "image_url", "image_url": {"url": "https://img.example/a.png"}}),
        "messages.0.content.0: this is OpenAI's shape; send the request to /v1/chat/completions",
    ),
    ({"tools": [READ, READ]}, "tools: Tool names must be unique."),
    ({"tool_choice": {"type": "any of"}}, "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name: Field required"),
    ({"thread": {"type": "create"}}, "thread: not supported by this gateway"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_broken_field_is_named_by_its_plain_path(fields: dict[str, Any], message: str):
    with pytest.raises(InvalidRequest) as caught:
        parse_request(orjson.dumps(LEGAL | fields))

    assert caught.value.message == message
    assert caught.value.status_hint == 400


@pytest.mark.parametrize("name", LEGAL)
def test_a_required_field_is_missed(name: str):
    with pytest.raises(InvalidRequest, match=f"^{name}: Field required$"):
        parse_request(orjson.dumps({key: value for key, value in LEGAL.items() if key != name}))


ACCEPTED: list[dict[str, Any]] = [
    {"brand_new_field": {"a": 1}, "anthropic_version": "2099-01-01", "container": None},
    {"system": None, "tools": None, "stream": None, "metadata": None, "thinking": None, "stop_sequences": None},
    {"max_tokens": 5.0},
    {"max_tokens": 0},
    {"thinking": {"type": "a_later_kind"}, "output_config": {"effort": 7}},
    {"tools": [{"type": "web_search_20991231", "name": "web_search", "max_uses": 3}, {"type": "computer_toolset_9"}]},
    content({"type": "hologram_2027", "data": {"x": 1}}),
    content({"type": "image", "source": {"type": "a_later_kind"}}),
    {"messages": [user("Hi"), {"role": "system", "output_config": {"effort": "low"}}]},
    {"messages": [{"role": "system", "content": "first"}, user("Hi")]},
]


@pytest.mark.parametrize("fields", ACCEPTED)
def test_what_is_not_known_passes(fields: dict[str, Any]):
    assert parse_request(orjson.dumps(LEGAL | fields)).body == orjson.loads(orjson.dumps(LEGAL | fields))


def test_a_thread_is_refused_so_that_the_tool_runner_goes_on_without():
    with pytest.raises(InvalidRequest) as caught:
        asked(thread={"type": "continue", "previous_message_id": "msg_1"})

    assert caught.value.details == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


def test_counting_needs_no_limit_but_checks_one():
    counted = {"model": "m", "messages": LEGAL["messages"]}

    assert parse_request(orjson.dumps(counted), for_counting=True).max_tokens is None
    with pytest.raises(InvalidRequest, match="max_tokens"):
        parse_request(orjson.dumps({**counted, "max_tokens": "x"}), for_counting=True)


def test_more_messages_than_anthropic_takes_are_refused():
    raw = orjson.dumps({**LEGAL, "messages": [{"role": "user", "content": "x"}] * 100_001})

    with pytest.raises(InvalidRequest, match="at most 100000 items"):
        parse_request(raw, limits=JsonLimits(members=10**6))


USER_IDS = [
    (None, None),
    ("", None),
    ("bob", None),
    ("[1]", None),
    ('{"session_id":5}', None),
    ('{"device_id":"ab","account_uuid":"","session_id":"0b9-4"}', "0b9-4"),
    ("user_12ab_account__session_0b9-4", "0b9-4"),
]


@pytest.mark.parametrize(("user_id", "session"), USER_IDS)
def test_the_session_is_found_in_both_forms_of_user_id(user_id: str | None, session: str | None):
    assert asked(metadata={"user_id": user_id}).session_id == session


THINKING: list[tuple[dict[str, Any], Thinking]] = [
    ({}, Thinking()),
    ({"thinking": {"type": "disabled"}}, Thinking(mode=ThinkingMode.OFF)),
    ({"thinking": {"type": "between_tools"}}, Thinking(mode=ThinkingMode.OFF)),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 2048.0}},
        Thinking(mode=ThinkingMode.ENABLED, budget=2048),
    ),
    (
        {"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "max"}},
        Thinking(mode=ThinkingMode.ADAPTIVE, effort="max", omit_text=True),
    ),
]


@pytest.mark.parametrize(("fields", "thinking"), THINKING)
def test_wishes_about_thinking_are_read(fields: dict[str, Any], thinking: Thinking):
    assert asked(**fields).thinking == thinking


def test_the_last_effort_counts():
    messages = [user("a"), system("", output_config={"effort": "low"}), user("b")]

    assert asked(*messages, output_config={"effort": "high"}).thinking.effort == "low"


def test_the_line_of_accounting_is_dropped_from_the_system_prompt_only():
    line = "x-anthropic-billing-header: cc_version=2.1; cch=3b9d0;"

    request = asked(user(line), system=[text(line), text("Be brief."), text(""), {"type": "other"}])

    assert request.system == ("Be brief.",)
    assert request.messages[0]["content"] == line


@pytest.mark.parametrize("make", [str, lambda words: [text(words)]], ids=["string", "block"])
def test_only_the_line_is_dropped_where_the_prompt_goes_on(make: Callable[[str], Any]):
    line = "x-anthropic-billing-header: cc_version=2.1;"

    assert asked(system=make(f"{line}\n\nBe brief.\nBe kind.")).system == ("Be brief.\nBe kind.",)
    assert asked(system=make(line)).system == ()
    assert asked(system=make(" \n")).system == ()


SCHEMAS: list[tuple[dict[str, Any], Any]] = [
    ({"output_config": {"format": {"type": "json_schema", "schema": {"a": 1}}}}, {"a": 1}),
    ({"output_format": {"type": "json_schema", "schema": {"b": 1}}}, {"b": 1}),
    (
        {
            "output_config": {"format": {"type": "json_schema", "schema": {"a": 1}}},
            "output_format": {"type": "json_schema", "schema": {"b": 1}},
        },
        {"a": 1},
    ),
    ({"output_config": {"format": {"type": "text"}}}, None),
]


@pytest.mark.parametrize(("fields", "schema"), SCHEMAS)
def test_a_schema_for_the_answer_is_found_under_both_names(fields: dict[str, Any], schema: Any):
    assert asked(**fields).output_schema == schema


NOT_JSON = {
    "cut": b'{"model": "m", "messages": [',
    "not a number": b'{"temperature": NaN}',
    "infinite": b'{"temperature": 1e999}',
    "five thousand digits": b'{"max_tokens": ' + b"9" * 5000 + b"}",
    "half a surrogate pair": rb'{"model": "\ud800"}',
    "not UTF-8": b'{"model": "\xff"}',
    "a list": b"[]",
    "nothing": b"",
    "a key twice": b'{"model": "a", "model": "b"}',
    "a key twice, once escaped": rb'{"model": "a", "mod\u0065l": "b"}',
    "a key twice, deep down": b'{"a": [{"b": {"c": 1, "c": 2}}]}',
    "65 levels": b'{"a":' * 64 + b"[]" + b"}" * 64,
    "100,000 levels": b"[" * 100_000,
    "too many members": b'{"a":[' + b"0," * 100_000 + b"0]}",
}


@pytest.mark.parametrize("raw", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_strict_json_is_refused(raw: bytes):
    with pytest.raises(InvalidRequest, match=r"^The request body "):
        parse_request(raw)


def test_colons_and_quotes_in_strings_are_not_keys():
    tree = {'a"': 1, "b:\\": {"c": ['x":', '\\"', "\\\\"], "": {"d": {}}}, "é": "{:"}

    assert load_object(orjson.dumps(tree), JsonLimits()) == tree


def test_64_levels_are_read():
    raw = b'{"a":' * 63 + b"[]" + b"}" * 63

    assert load_object(raw, JsonLimits())


def test_the_schema_describes_what_is_checked():
    schema = request_schema()

    assert schema["required"] == ["model", "max_tokens", "messages"]
    assert request_schema(for_counting=True)["required"] == ["model", "messages"]
    assert set(schema["required"]) <= set(schema["properties"])
