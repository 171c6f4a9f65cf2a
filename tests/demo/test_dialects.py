"""The scripted upstream's dialects, read by the official SDKs: what those accept is the format."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.upstream import ScriptedUpstream

MESSAGES_TOOL: Any = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
FUNCTION_TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": MESSAGES_TOOL["input_schema"],
    "strict": False,
}


@pytest.fixture
def messages(upstream: ScriptedUpstream) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=upstream.base_url.removesuffix("/v1"), api_key="sk-one", max_retries=0) as client:
        yield client


@pytest.fixture
def chat(upstream: ScriptedUpstream) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=upstream.base_url, api_key="sk-one", max_retries=0) as client:
        yield client


def test_a_message_whole_and_streamed_is_the_same(messages: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    question: Any = {"model": "demo", "max_tokens": 200, "messages": [{"role": "user", "content": "Hello"}]}
    whole: Any = messages.messages.create(**question)
    with messages.messages.stream(**question) as stream:
        streamed: Any = stream.get_final_message()

    assert [block.text for block in streamed.content] == [block.text for block in whole.content]
    assert streamed.usage.output_tokens == whole.usage.output_tokens == upstream.attempts()[0]["output_tokens"]
    assert (streamed.stop_reason, whole.stop_reason) == ("end_turn", "end_turn")


def test_messages_call_tools_in_blocks_that_never_overlap(messages: anthropic.Anthropic) -> None:
    with messages.messages.stream(
        model="script/think,tools=2,interleaved",
        max_tokens=200,
        messages=[{"role": "user", "content": "Hello"}],
        tools=[MESSAGES_TOOL],
    ) as stream:
        message = stream.get_final_message()

    assert [block.type for block in message.content] == ["thinking", "tool_use", "tool_use"]
    assert [block.input for block in message.content if block.type == "tool_use"] == [
        {"city": "item 0"},
        {"city": "item 1"},
    ]
    assert message.stop_reason == "tool_use"


def test_an_error_of_the_messages_api_has_its_type(messages: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.RateLimitError) as caught:
        messages.messages.create(
            model="script/status=429", max_tokens=9, messages=[{"role": "user", "content": "Hello"}]
        )

    assert json.loads(caught.value.response.text)["error"]["type"] == "rate_limit_error"


def test_a_response_whole_and_streamed_is_the_same(chat: openai.OpenAI) -> None:
    whole = chat.responses.create(model="demo", input="Hello")
    with chat.responses.stream(model="demo", input="Hello") as stream:
        streamed = stream.get_final_response()

    assert streamed.output_text == whole.output_text
    assert whole.usage is not None
    assert streamed.usage == whole.usage


def test_a_response_reasons_and_calls_tools(chat: openai.OpenAI) -> None:
    with chat.responses.stream(
        model="script/think,tools=2,interleaved", input="Hello", tools=[FUNCTION_TOOL]
    ) as stream:
        response = stream.get_final_response()

    assert [item.type for item in response.output] == ["reasoning", "function_call", "function_call"]
    calls = [item for item in response.output if item.type == "function_call"]
    assert [json.loads(call.arguments) for call in calls] == [{"city": "item 0"}, {"city": "item 1"}]


def test_chat_completions_are_what_their_sdk_reads(chat: openai.OpenAI) -> None:
    with chat.chat.completions.stream(
        model="script/think,tools=2,interleaved",
        messages=[{"role": "user", "content": "Hello"}],
        stream_options={"include_usage": True},
    ) as stream:
        completion = stream.get_final_completion()

    calls = completion.choices[0].message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in calls] == [{"word": "item 0"}, {"word": "item 1"}]
    assert completion.usage is not None
