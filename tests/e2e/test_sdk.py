"""The official Python SDK against the gateway: whole, streamed, and a conversation with a tool."""

import json
from collections.abc import Iterator

import anthropic
import pytest

from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.sdk_talk import ask_for_the_weather, converse, user
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream


@pytest.fixture
def client(shared: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=shared.base_url, api_key=shared.token, max_retries=0) as client:
        yield client


def test_a_whole_message(client: anthropic.Anthropic, shared: RunningGateway, upstream: ScriptedUpstream) -> None:
    message = client.messages.create(model="claude-sonnet-5-5", max_tokens=300, messages=[user("Is the sea deep?")])

    assert message.content[0].type == "text"
    assert "Is the sea deep?" in message.content[0].text
    assert (message.model, message.stop_reason) == ("claude-sonnet-5-5", "end_turn")
    [record] = assert_ledger_adds_up(shared, upstream)
    assert record["output_tokens"] == message.usage.output_tokens > 0
    assert record["user_name"] == "alice"


def test_a_streamed_message(client: anthropic.Anthropic, shared: RunningGateway, upstream: ScriptedUpstream) -> None:
    with client.messages.stream(model="demo", max_tokens=300, messages=[user("Is the sea deep?")]) as stream:
        parts = list(stream.text_stream)
        message = stream.get_final_message()

    assert message.content[0].type == "text"
    assert "".join(parts) == message.content[0].text
    assert len(parts) > 5
    [record] = assert_ledger_adds_up(shared, upstream)
    assert record["output_tokens"] == message.usage.output_tokens
    assert record["input_tokens"] == message.usage.input_tokens
    assert record["ttft_ms"] is not None


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
def test_a_conversation_with_a_tool(
    client: anthropic.Anthropic, shared: RunningGateway, upstream: ScriptedUpstream, is_streamed: bool
) -> None:
    call, second = ask_for_the_weather(client, is_streamed)

    assert second.content[0].type == "text"
    assert "18 degrees" in second.content[0].text
    assert_ledger_adds_up(shared, upstream)
    sent = upstream.requests()[-1]["body"]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == call.id


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
def test_parallel_calls_that_come_in_turns_are_put_in_order(
    client: anthropic.Anthropic, shared: RunningGateway, upstream: ScriptedUpstream, is_streamed: bool
) -> None:
    message = converse(client, [user("Hello")], is_streamed, model="script/think,tools=3,interleaved")

    calls = [block for block in message.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"city": f"item {number}"} for number in range(3)]
    assert len({call.id for call in calls}) == 3
    assert message.stop_reason == "tool_use"
    assert_ledger_adds_up(shared, upstream)


def test_thinking_comes_as_a_signed_block(client: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    with client.messages.stream(
        model="script/think", max_tokens=2000, messages=[user("Hello")], thinking={"type": "adaptive"}
    ) as stream:
        message = stream.get_final_message()

    thought, text = message.content
    assert thought.type == "thinking"
    assert thought.thinking.startswith("Let me look at this")
    assert thought.signature
    assert text.type == "text"


def test_cached_input_is_counted_apart(
    client: anthropic.Anthropic, shared: RunningGateway, upstream: ScriptedUpstream
) -> None:
    for _ in range(2):
        message = client.messages.create(model="script/ok,cached=40", max_tokens=99, messages=[user("word " * 100)])

    assert message.usage.cache_read_input_tokens == 40
    assert (message.usage.input_tokens or 0) > 40
    assert_ledger_adds_up(shared, upstream)


def test_an_upstream_error_is_an_sdk_error(client: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(model="script/status=400,message=no+such+thing", max_tokens=9, messages=[user("Hello")])

    assert caught.value.request_id
    error = json.loads(caught.value.response.text)
    assert error["error"] == {"type": "invalid_request_error", "message": "no such thing"}


def test_an_error_in_the_stream_is_an_sdk_error(client: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    upstream.script("cut,frame=3", model="breaks")

    with (
        pytest.raises(anthropic.APIStatusError) as caught,
        client.messages.stream(model="breaks", max_tokens=99, messages=[user("Hello")]) as stream,
    ):
        stream.get_final_message()

    assert caught.value.type == "api_error"


def test_tokens_are_counted_without_an_upstream(client: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    counted = client.messages.count_tokens(model="claude-sonnet-5-5", messages=[user("Is the sea deep?")])

    assert 4 <= counted.input_tokens <= 30
    assert upstream.attempts() == []
