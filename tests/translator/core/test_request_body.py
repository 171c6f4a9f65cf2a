from typing import Any

import pytest

from tests.translator.core.asking import READ, asked, assistant, call, rendered, result, sent, user
from translator.core.anthropic.render import forwarded_headers, render_request
from translator.core.errors import UnsupportedFeature
from translator.core.facts import ModelFacts
from translator.core.openai_chat import request as chat
from translator.core.openai_chat.reasoning import ReasoningState
from translator.core.openai_responses import request as responses
from translator.core.profiles import PROFILES

SMALLEST = {"model": "up-x", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}


def keys(**fields: Any) -> dict[str, Any]:
    """What is sent beside the smallest body."""
    return {key: value for key, value in sent(**fields).items() if SMALLEST.get(key) != value}


def test_the_smallest_request_is_as_small_upstream():
    assert sent() == SMALLEST


ONLY_ANTHROPICS: list[dict[str, Any]] = [
    {"metadata": {"user_id": "bob"}},
    {"service_tier": "auto"},
    {"context_management": {"edits": []}},
    {"output_config": {"effort": "high", "task_budget": {}}},
    {"container": {"skills": []}},
    {"mcp_servers": []},
    {"compaction": None},
    {"inference_geo": "eu", "speed": "fast", "fallbacks": [], "diagnostics": {}, "betas": ["x"]},
    {"cache_control": {"type": "ephemeral"}},
    {"brand_new_field": {"a": 1}, "api_base": "https://evil.example", "base_url": "x", "n": 5, "logprobs": True},
    {"thinking": {"type": "enabled", "budget_tokens": 2048}},
    {"top_k": 40},
    {"stop_sequences": []},
    {"stop_sequences": [" ", "\n"]},
    {"system": ""},
    {"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2"}]},
]


@pytest.mark.parametrize("fields", ONLY_ANTHROPICS)
def test_what_chat_upstreams_have_no_word_for_is_dropped(fields: dict[str, Any]):
    assert keys(**fields) == {}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"compaction": {"type": "summarize"}}, "^compaction: not supported by this gateway$"),
    ({"mcp_servers": [{}]}, "^mcp_servers: the MCP connector is not supported by this gateway$"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_what_would_ruin_the_conversation_is_refused(fields: dict[str, Any], message: str):
    with pytest.raises(UnsupportedFeature, match=message):
        sent(**fields)


SENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "system texts, joined": (
        {"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"messages": [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "Hi"}]},
    ),
    "stream": ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    "stream without usage": ({"stream": True, "switches": {"stream_usage": False}}, {"stream": True}),
    "sampling": ({"temperature": 0, "top_p": 0.9}, {"temperature": 0, "top_p": 0.9}),
    "no sampling": ({"temperature": 0, "switches": {"sampling": False}}, {}),
    "no sampling for a reasoning model": (
        {"temperature": 0, "switches": {"sampling_with_reasoning": False}, "facts": {"reasoning": True}},
        {},
    ),
    "top_k": ({"top_k": 40, "profile": "vllm"}, {"top_k": 40}),
    "stop": ({"stop_sequences": ["STOP", " ", "\n\nHuman:"]}, {"stop": ["STOP", "\n\nHuman:"]}),
    "stop, as many as are taken": ({"stop_sequences": list("abcdef")}, {"stop": list("abcd")}),
    "stop, all": ({"stop_sequences": list("abcdef"), "profile": "vllm"}, {"stop": list("abcdef")}),
    "stop, none": ({"stop_sequences": ["a"], "switches": {"stop_max": 0}}, {}),
    "a limit of the profile": ({"switches": {"max_tokens_cap": 50}}, {"max_tokens": 50}),
    "a limit of the model": (
        {"facts": {"max_output_tokens": 7}, "switches": {"max_tokens_cap": 50}},
        {"max_tokens": 7},
    ),
    "what the window leaves": (
        {"max_tokens": 9_000, "facts": {"context_window": 2_005}},
        {"max_tokens": 2_000},
    ),
    "all, where the window is full": (
        {"max_tokens": 9_000, "facts": {"context_window": 1_000}},
        {"max_tokens": 9_000},
    ),
    "the user, as a digest": (
        {"metadata": {"user_id": "bob"}, "switches": {"user_id_keys": ["user", "safety_identifier"]}},
        dict.fromkeys(
            ("user", "safety_identifier"), "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9"
        ),
    ),
    "a tier": ({"service_tier": "standard_only", "switches": {"service_tier": True}}, {"service_tier": "default"}),
    "a tier of a later kind": ({"service_tier": "x", "switches": {"service_tier": True}}, {}),
    "what the profile adds": ({"switches": {"extra_body": {"safe_prompt": True}}}, {"safe_prompt": True}),
    "less what the upstream refuses": ({"temperature": 0, "switches": {"unsupported": ["temperature"]}}, {}),
}


@pytest.mark.parametrize(("fields", "expected"), SENT.values(), ids=SENT)
def test_a_field_becomes(fields: dict[str, Any], expected: dict[str, Any]):
    assert keys(**fields) == expected


@pytest.mark.parametrize("name", ["gpt-5-mini", "openai/gpt-5", "o3", "o4-mini"])
def test_newer_openai_models_get_the_newer_key(name: str):
    body = sent(facts={"name": name}, temperature=1)

    assert body == {"model": name, "max_completion_tokens": 100, "messages": SMALLEST["messages"]}


def test_the_cache_key_is_the_session_or_else_the_user():
    def cache_key(user_id: str | None) -> Any:
        return keys(profile="openai", metadata={"user_id": user_id}).get("prompt_cache_key")

    assert cache_key("a_session_0b9") == cache_key('{"session_id":"0b9"}') != cache_key("bob")
    assert cache_key(None) is None


SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
    "additionalProperties": False,
}
FORMATS: list[tuple[str, dict[str, Any] | None, bool]] = [
    (
        "json_schema",
        {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA, "strict": True}},
        False,
    ),
    ("json_object", {"type": "json_object"}, True),
    ("text", None, True),
]


@pytest.mark.parametrize(("word", "key", "is_asked"), FORMATS)
def test_structured_output_is_asked_for(word: str, key: dict[str, Any] | None, is_asked: bool):
    body = sent(output_config={"format": {"type": "json_schema", "schema": SCHEMA}}, switches={"response_format": word})

    assert body.get("response_format") == key
    assert ('"title"' in body["messages"][0]["content"]) is is_asked


#: Schemas that OpenAI refuses as strict ones, and the same that it takes.
OPEN_SCHEMAS: dict[str, dict[str, Any]] = {
    "a property that may be missing": {**SCHEMA, "required": []},
    "other properties": {key: value for key, value in SCHEMA.items() if key != "additionalProperties"},
    "an open object in a list": {**SCHEMA, "properties": {"title": {"items": {"type": "object"}}}},
    "an open object in a union": {**SCHEMA, "properties": {"title": {"anyOf": [SCHEMA, {"properties": {"a": {}}}]}}},
    "an open object in a definition": {**SCHEMA, "$defs": {"A": {"type": "object", "required": 7}}},
    "no list of what is required": {**SCHEMA, "required": 7, "properties": 7, "additionalProperties": True},
}


@pytest.mark.parametrize("schema", OPEN_SCHEMAS.values(), ids=OPEN_SCHEMAS)
def test_a_schema_is_strict_only_where_nothing_in_it_is_open(schema: dict[str, Any]):
    def asked_for(schema: dict[str, Any]) -> Any:
        fields = {"type": "json_schema", "schema": {"$schema": "x", **schema}}
        return sent(output_config={"format": fields})["response_format"]["json_schema"]

    assert asked_for(schema) == {"name": "output", "schema": schema, "strict": False}
    assert asked_for({**SCHEMA, "properties": {"title": SCHEMA}})["strict"]
    assert asked_for({**SCHEMA, "properties": {"title": {"items": [True, {"enum": ["a"]}]}}})["strict"]


ADAPTIVE = {"type": "adaptive"}
OFF = {"type": "disabled"}


def enabled(budget: int | None = None) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget}


THINKING: list[tuple[str, Any, str | None, dict[str, Any]]] = [
    ("openai", None, None, {}),
    ("openai", OFF, "high", {}),
    ("openai", ADAPTIVE, None, {}),
    ("openai", ADAPTIVE, "medium", {"reasoning_effort": "medium"}),
    ("openai", ADAPTIVE, "max", {"reasoning_effort": "high"}),
    ("openai", ADAPTIVE, "a later word", {}),
    ("openai", None, "low", {"reasoning_effort": "low"}),
    ("openai", enabled(4096), None, {"reasoning_effort": "low"}),
    ("openai", enabled(16384), None, {"reasoning_effort": "medium"}),
    ("openai", enabled(31999), None, {"reasoning_effort": "high"}),
    ("openai", enabled(31999), "low", {"reasoning_effort": "low"}),
    ("openai", enabled(), None, {}),
    ("gemini", OFF, None, {"reasoning_effort": "none"}),
    ("vllm", None, None, {}),
    ("vllm", OFF, "high", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
    (
        "vllm",
        ADAPTIVE,
        "low",
        {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}, "reasoning_effort": "low"},
    ),
    ("deepseek", None, None, {}),
    ("deepseek", OFF, "high", {"thinking": {"type": "disabled"}}),
    ("deepseek", ADAPTIVE, None, {"thinking": {"type": "enabled"}}),
    ("deepseek", enabled(2048), None, {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
    ("deepseek", ADAPTIVE, "max", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
    ("openrouter", None, None, {}),
    ("openrouter", OFF, "high", {"reasoning": {"enabled": False}}),
    ("openrouter", ADAPTIVE, None, {"reasoning": {"enabled": True}}),
    ("openrouter", enabled(2048), None, {"reasoning": {"max_tokens": 2048}}),
    ("openrouter", enabled(2048), "low", {"reasoning": {"effort": "low"}}),
    ("plain", ADAPTIVE, "high", {}),
]


@pytest.mark.parametrize(("profile", "thinking", "effort", "expected"), THINKING)
def test_thinking_is_asked_for(profile: str, thinking: Any, effort: str | None, expected: dict[str, Any]):
    fields = {"thinking": thinking, "output_config": {"effort": effort}, "facts": {"reasoning": True}}

    assert keys(profile=profile, **fields) == expected


def test_a_forced_call_switches_thinking_off_where_it_would_be_refused():
    forced = {"tools": [READ], "tool_choice": {"type": "any"}}

    assert sent(profile="deepseek", thinking=ADAPTIVE, **forced)["thinking"] == OFF
    assert sent(profile="deepseek", **forced)["thinking"] == OFF
    assert "thinking" not in sent(profile="deepseek", tools=[READ], tool_choice={"type": "none"})


@pytest.mark.parametrize("profile", ["openai", "vllm", "deepseek", "openrouter"])
def test_models_that_do_not_reason_are_not_asked_to(profile: str):
    assert keys(profile=profile, thinking=ADAPTIVE, output_config={"effort": "low"}, facts={"reasoning": False}) == {}


def test_the_template_switch_may_have_no_name():
    assert keys(profile="vllm", thinking=ADAPTIVE, facts={"reasoning": True}, switches={"template_kwargs": []}) == {}


def signature(*, text: str = "", details: list[dict[str, Any]] | None = None) -> str:
    state = ReasoningState(keep_text=True)
    if text:
        state.add_text(text)
    state.add_details(details)
    return state.sign()


DETAILS = [{"type": "reasoning.encrypted", "data": "xyz", "index": 0}]
EMPTY_DETAILS = "gw1.eyJyZWFzb25pbmdfZGV0YWlscyI6MSwidGhpbmtpbmciOjF9"
REPLAYED: list[tuple[str, list[tuple[str, str]], dict[str, Any]]] = [
    ("plain", [("hm", "EqQB")], {}),
    ("vllm", [("hm", "EqQB")], {"reasoning": "hm"}),
    ("sglang", [("hm ", "EqQB"), ("so", "")], {"reasoning_content": "hm so"}),
    ("vllm", [("", "EqQB")], {}),
    ("vllm", [("", signature(text="secret"))], {"reasoning": "secret"}),
    ("vllm", [("", "gw1.%%%")], {}),
    ("vllm", [("", "gw1.eA")], {}),
    ("vllm", [("", "gw1.W10")], {}),
    ("vllm", [("", EMPTY_DETAILS)], {}),
    ("deepseek", [], {"reasoning_content": ""}),
    ("deepseek", [("hm", "")], {"reasoning_content": "hm"}),
    ("openrouter", [("hm", signature(details=DETAILS))], {"reasoning_details": DETAILS}),
    ("openrouter", [("hm", "EqQB")], {"reasoning": "hm"}),
    ("openrouter", [("hm", EMPTY_DETAILS)], {"reasoning": "hm"}),
    ("openrouter", [("", "")], {}),
]


@pytest.mark.parametrize(("profile", "blocks", "expected"), REPLAYED)
def test_earlier_thinking_goes_back_as_the_upstream_wants_it(
    profile: str, blocks: list[tuple[str, str]], expected: dict[str, Any]
):
    thinking = [{"type": "thinking", "thinking": text, "signature": signed} for text, signed in blocks]

    messages = sent(user("Hi"), assistant(*thinking, call("t1")), user(result("t1")), profile=profile)["messages"]

    assert {key: value for key, value in messages[1].items() if key.startswith("reasoning")} == expected


def test_no_empty_thinking_goes_back_where_thinking_is_off_or_no_tool_was_called():
    history = [user("Hi"), assistant(call("t1")), user(result("t1")), assistant("ok"), user("on")]

    thinking_on = sent(*history, profile="deepseek")["messages"]
    thinking_off = sent(*history, profile="deepseek", thinking=OFF)["messages"]

    assert ["reasoning_content" in message for message in thinking_on] == [False, True, False, False, False]
    assert not any("reasoning_content" in message for message in thinking_off)


def test_the_answer_is_read_with_what_was_asked():
    answer = rendered(
        thinking={"type": "adaptive", "display": "omitted"}, stop_sequences=list("abcdef"), tools=[{"name": "Read"}]
    ).answer

    assert answer.model == "claude-x"
    assert answer.stop_sequences == tuple("abcdef")
    assert answer.max_tokens == 100
    assert answer.show_thinking
    assert answer.omit_thinking_text
    assert answer.parallel_tools
    assert answer.input_estimate > 0
    assert answer.tools == {"Read"}


def test_the_limit_of_the_answer_is_the_one_that_was_sent():
    assert rendered(facts={"max_output_tokens": 7}).answer.max_tokens == 7


def test_the_input_is_not_estimated_twice():
    request, model = asked(), ModelFacts(name="up-x", context_window=10_000)

    answers = [
        chat.render_request(request, profile=PROFILES["plain"], model=model, input_estimate=7).answer,
        responses.render_request(request, profile=PROFILES["plain"], model=model, input_estimate=7).answer,
        render_request(request, model=model, input_estimate=7).answer,
    ]

    assert [answer.input_estimate for answer in answers] == [7, 7, 7]


def test_an_upstream_of_the_same_dialect_gets_the_body_untouched_but_for_the_name():
    request = asked(brand_new_field={"a": 1}, mcp_servers=[{"name": "x"}], top_k=3)

    answer = render_request(request, model=ModelFacts(name="claude-up"))

    assert answer.body == {**request.body, "model": "claude-up"}
    assert request.body["model"] == answer.answer.model == "claude-x"


HEADERS: list[tuple[list[tuple[str, str]], dict[str, str]]] = [
    ([("X-Api-Key", "secret"), ("Cookie", "c"), ("User-Agent", "u")], {"anthropic-version": "2023-06-01"}),
    ([("Anthropic-Version", "2026-10-21")], {"anthropic-version": "2026-10-21"}),
    (
        [("anthropic-beta", "a,b"), ("Anthropic-Beta", " c "), ("anthropic-beta", "")],
        {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b,c"},
    ),
    (
        [("anthropic-version", "2026\xe9"), ("anthropic-beta", "a\x1b[31m"), ("anthropic-beta", "b" * 2000)],
        {"anthropic-version": "2023-06-01"},
    ),
]


@pytest.mark.parametrize(("headers", "forwarded"), HEADERS)
def test_only_the_version_and_the_betas_travel(headers: list[tuple[str, str]], forwarded: dict[str, str]):
    assert forwarded_headers(headers) == forwarded
