from typing import Any

import orjson
import pytest

from translator.core.errors import InvalidRequest
from translator.core.openai_chat.passthrough import ChatRequest, parse_chat_request, render_chat_request

LEGAL: dict[str, Any] = {"model": "gpt", "messages": [{"role": "user", "content": "Hi"}]}


def parsed(**fields: Any) -> ChatRequest:
    return parse_chat_request(orjson.dumps(LEGAL | fields))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"model": "m" * 257}, "model"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": ["hi"]}, r"messages\.0"),
    ({"messages": [{"content": "hi"}]}, r"messages\.0"),
    ({"stream": "yes"}, "stream"),
]


@pytest.mark.parametrize(("fields", "path"), REFUSED)
def test_a_broken_request_is_refused_by_name(fields: dict[str, Any], path: str):
    with pytest.raises(InvalidRequest, match=f"^{path}: "):
        parsed(**fields)


def test_only_the_model_changes():
    request = parsed(tools=[], n=2, brand_new={"a": 1})

    assert render_chat_request(request, model_name="up-x") == {**request.body, "model": "up-x"}
    assert request.body["model"] == request.model == "gpt"


OPTIONS: list[tuple[Any, dict[str, Any], bool]] = [
    (None, {"include_usage": True}, False),
    ("odd", {"include_usage": True}, False),
    ({"include_usage": True}, {"include_usage": True}, True),
    ({"include_usage": False, "other": 1}, {"include_usage": True, "other": 1}, False),
]


@pytest.mark.parametrize(("given", "sent", "wants_usage"), OPTIONS)
def test_usage_is_asked_for_on_streams(given: Any, sent: dict[str, Any], wants_usage: bool):
    request = parsed(stream=True, stream_options=given)

    assert render_chat_request(request, model_name="up-x")["stream_options"] == sent
    assert request.wants_usage is wants_usage


def test_no_usage_is_asked_for_without_a_stream():
    assert "stream_options" not in render_chat_request(parsed(stream=False), model_name="up-x")


def test_what_the_relay_needs_is_read():
    request = parsed(stream=True, user="bob", prompt_cache_key="s1", max_tokens=5, max_completion_tokens=7)

    assert (request.stream, request.session_id, request.max_tokens) == (True, "s1", 7)
    assert request.input_estimate > 0
    assert (parsed(user="bob").session_id, parsed(user=5).session_id) == ("bob", None)
    assert parsed(max_tokens=True).max_tokens is None
