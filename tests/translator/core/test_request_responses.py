from base64 import urlsafe_b64encode
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translator.core.asking import PNG, READ, asked, assistant, call, result, system, text, user
from tests.translator.core.test_request_invariants import BODIES, MODELS, parsed
from translator.core.errors import InvalidRequest
from translator.core.facts import ModelFacts
from translator.core.openai_responses.request import render_request
from translator.core.profiles import PROFILES, profile_named

SMALLEST = {
    "model": "up-x",
    "max_output_tokens": 100,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
}
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"}


def sent(*messages: dict[str, Any], switches: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    profile = profile_named("openai", switches or {})
    return render_request(
        asked(*messages, **fields), profile=profile, model=ModelFacts(name="up-x", reasoning=True)
    ).body


def message(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


SENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "a system prompt": ({"system": "Be brief."}, {"instructions": "Be brief."}),
    "stream": ({"stream": True}, {"stream": True}),
    "sampling": ({"temperature": 0, "top_p": 0.5, "top_k": 4}, {"temperature": 0, "top_p": 0.5}),
    "stop sequences": ({"stop_sequences": ["x"]}, {}),
    "effort": ({"output_config": {"effort": "low"}}, {"reasoning": {"effort": "low"}}),
    "effort, thinking shown": (
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    "a schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"text": {"format": {"type": "json_schema", "name": "output", "schema": {"type": "object"}, "strict": False}}},
    ),
    "a forced tool": (
        {"tools": [READ], "tool_choice": {"type": "tool", "name": "Read", "disable_parallel_tool_use": True}},
        {
            "tools": [{"type": "function", "name": "Read", "parameters": READ["input_schema"], "strict": False}],
            "tool_choice": {"type": "function", "name": "Read"},
            "parallel_tool_calls": False,
        },
    ),
    "what the profile adds": ({"switches": {"extra_body": {"truncation": "auto"}}}, {"truncation": "auto"}),
}


@pytest.mark.parametrize(("fields", "expected"), SENT.values(), ids=SENT)
def test_a_field_becomes(fields: dict[str, Any], expected: dict[str, Any]):
    body = sent(**fields)

    assert {key: value for key, value in body.items() if SMALLEST.get(key) != value} == expected
    assert body.keys() >= SMALLEST.keys()


def test_the_upstream_may_not_know_a_key():
    assert "include" not in sent(switches={"unsupported": ["include"]})


def test_a_conversation_becomes_items_in_order():
    state = urlsafe_b64encode(orjson.dumps({"reasoning_items": [ITEM]})).decode()
    thinking = {"type": "thinking", "thinking": "hm", "signature": f"gw1.{state}"}
    foreign = {"type": "thinking", "thinking": "so", "signature": "EqQB"}

    body = sent(
        user(
            PNG,
            text("See"),
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "J"}},
        ),
        assistant(foreign, thinking, text("ok"), call("t1")),
        user(result("t1", "A"), text("on")),
        system("Be quick."),
    )

    assert body["input"] == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,iVBOR"},
                {"type": "input_text", "text": "See"},
                {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,J"},
            ],
        },
        ITEM,
        message("assistant", "ok"),
        {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "A"},
        message("user", "on"),
        message("system", "Be quick."),
    ]


def test_a_turn_of_calls_alone_has_no_message():
    body = sent(user("Go"), assistant(call("t1")))

    assert [item["type"] for item in body["input"]] == ["message", "function_call", "function_call_output"]


@given(body=BODIES, model=MODELS, name=st.sampled_from(list(PROFILES)))
@settings(max_examples=100)
def test_calls_are_answered_right_after_they_were_made(body: dict[str, Any], model: ModelFacts, name: str):
    request = parsed(body)
    if request is None:
        return
    try:
        items = render_request(request, profile=PROFILES[name], model=model).body["input"]
    except InvalidRequest:
        return

    assert orjson.dumps(items)
    kinds = {"function_call", "function_call_output"}
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert calls == [item["call_id"] for item in items if item["type"] == "function_call_output"]
    assert all(item["type"] in kinds or item["content"] for item in items if item["type"] != "reasoning")
