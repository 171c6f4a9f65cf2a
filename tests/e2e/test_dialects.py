"""One client, upstreams of every dialect: the same conversation, the same errors, the same sums."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.client import ask, opened, question
from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.sdk_talk import WEATHER, converse, user
from tests.gateway import IMPATIENT, MakeGateway, RunningGateway, route_words, upstream_words
from tests.upstream import ScriptedUpstream

DIALECTS = ["openai_chat", "openai_responses", "anthropic"]
#: The signature of a block of thinking that holds a Responses upstream's reasoning.
REASONED = "gw1." + urlsafe_b64encode(b'{"reasoning_items":[{"type":"reasoning","encrypted_content":"x"}]}').decode()
NO_IMAGES = "This model does not support image input"
UNVERIFIED = "The encrypted content x could not be verified."
WHOLE_AND_STREAM = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])

pytestmark = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.fixture(scope="module")
def mixed(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """An upstream of each dialect; alias, upstream and the end of the key are the dialect's name. Each is there a second
    time, for silences that are not waited for long."""
    commands = [
        words
        for dialect in DIALECTS
        for alias in (dialect, impatient(dialect))
        for words in (
            upstream_words(alias.replace("_", "-"), upstream_process.base_url, *keys_of(alias), dialect=dialect),
            route_words(alias, alias.replace("_", "-"), "demo"),
        )
    ]

    def hurry(made: RunningGateway) -> None:
        for dialect in DIALECTS:
            made.hurry(impatient(dialect).replace("_", "-"), **IMPATIENT)

    return make_gateway(commands=commands, prepare=hurry)


def impatient(dialect: str) -> str:
    return f"impatient-{dialect}"


def keys_of(alias: str) -> list[str]:
    return [f"sk-{alias}-{number}" for number in range(4)]


@pytest.fixture
def client(mixed: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=mixed.base_url, api_key=mixed.token, max_retries=0) as client:
        yield client


@WHOLE_AND_STREAM
def test_a_conversation_with_a_tool(
    client: anthropic.Anthropic, mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str, is_streamed: bool
) -> None:
    history = [user("Use get_weather for Paris")]
    first = converse(client, history, is_streamed, model=dialect)
    call = next(block for block in first.content if block.type == "tool_use")
    assert (first.stop_reason, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"})
    history.append({"role": "assistant", "content": first.content})
    history.append(user([{"type": "tool_result", "tool_use_id": call.id, "content": "18 degrees"}]))

    second = converse(client, history, is_streamed, model=dialect)

    assert "18 degrees" in second.content[-1].text
    records = assert_ledger_adds_up(mixed, upstream)
    assert {record["source"] for record in records} == {"upstream"}
    assert [attempt["dialect"] for attempt in upstream.attempts()] == [dialect, dialect]


@WHOLE_AND_STREAM
def test_parallel_calls_and_thinking(
    client: anthropic.Anthropic, mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str, is_streamed: bool
) -> None:
    upstream.script("think,tools=2,interleaved")

    question: Any = {"model": dialect, "max_tokens": 2000, "messages": [user("Hello")], "tools": [WEATHER]}
    question["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    if is_streamed:
        with client.messages.stream(**question) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(**question)

    assert [block.type for block in message.content] == ["thinking", "tool_use", "tool_use"]
    assert [block.input for block in message.content if block.type == "tool_use"] == [
        {"city": "item 0"},
        {"city": "item 1"},
    ]
    assert_ledger_adds_up(mixed, upstream)


@pytest.mark.parametrize(
    ("script", "error", "state"),
    [
        ("cut,frame=7,gap=9ms", "api_error", "truncated"),
        ("eof,frame=7,gap=9ms", "api_error", "truncated"),
        ("silent,frame=7,gap=9ms", "timeout_error", "timeout"),
        ("errorframe=429,frame=7,gap=9ms", "rate_limit_error", "upstream_error"),
    ],
)
def test_a_fault_in_the_middle_is_an_error_event(
    mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str, script: str, error: str, state: str
) -> None:
    upstream.script(script)

    seen = ask(mixed, impatient(dialect) if script.startswith("silent") else dialect)

    assert (seen.status, seen.error and seen.error["type"]) == (200, error), seen
    assert not seen.is_broken
    [record] = assert_ledger_adds_up(mixed, upstream, ended_well={seen.request_id: False})
    assert (record["state"], record["source"] in ("partial", "estimated")) == (state, True)


@pytest.mark.parametrize(
    ("script", "status", "error"),
    [
        ("status=400", 400, "invalid_request_error"),
        ("status=413", 413, "request_too_large"),
        ("status=500", 500, "api_error"),
        ("html", 500, "api_error"),
    ],
)
def test_a_fault_before_the_first_byte_is_a_status(
    mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str, script: str, status: int, error: str
) -> None:
    upstream.script(script)

    seen = ask(mixed, dialect)

    assert (seen.status, seen.error and seen.error["type"]) == (status, error), seen
    assert_ledger_adds_up(mixed, upstream, ended_well={seen.request_id: False})


def test_a_client_that_hangs_up_is_accounted(mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str) -> None:
    upstream.script("ok,frames=500,gap=10ms")

    with opened(mixed, question(dialect, stream=True)) as answer:
        parts = answer.iter_raw()
        for _ in range(8):
            next(parts)

    [record] = assert_ledger_adds_up(mixed, upstream)
    assert record["state"] == "client_gone"
    assert record["output_tokens"] > 0


def test_an_openai_client_is_served_by_its_own_dialect_only(
    mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str
) -> None:
    with openai.OpenAI(base_url=f"{mixed.base_url}/v1", api_key=mixed.token, max_retries=0) as client:
        messages: Any = [user("Hello there")]
        if dialect != "openai_chat":
            with pytest.raises(openai.BadRequestError):
                client.chat.completions.create(model=dialect, messages=messages)
            return
        whole = client.chat.completions.create(model=dialect, messages=messages)
        chunks = list(client.chat.completions.create(model=dialect, messages=messages, stream=True))

    assert "Hello there" in str(whole.choices[0].message.content)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    records = assert_ledger_adds_up(mixed, upstream)
    assert [(record["state"], record["source"]) for record in records] == [("ok", "upstream")] * 2


def test_what_is_refused_is_left_out(mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str) -> None:
    """Reasoning that another account encrypted is left out of its own conversation only."""
    thought = {"type": "thinking", "thinking": "", "signature": REASONED}
    history = [
        user("Hello"),
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi"}]},
        user("Go on"),
    ]
    body: dict[str, Any] = {"messages": history, "temperature": 0.5}
    refusals = {
        "temperature": "`temperature` is deprecated for this model.",
        "input": UNVERIFIED,
        "messages": "messages.1.content.0: Invalid `signature` in `thinking` block",
    }

    told = {}
    for key, words in refusals.items():
        refusal = {"status": 400, "json": {"error": {"message": words, "type": "invalid_request_error"}}}
        upstream.script(raw=refusal, times=1)
        told[key] = ask(mixed, dialect, **body).status
    ask(mixed, dialect, **body)

    assert told["temperature"] == (400 if dialect == "anthropic" else 200)
    assert told["input"] == (200 if dialect == "openai_responses" else 400)
    assert told["messages"] == (200 if dialect == "anthropic" else 400)
    last = upstream.requests()[-1]["body"]
    assert ("temperature" in last) is (dialect == "anthropic")
    if dialect == "openai_responses":
        assert [item["type"] for item in last["input"]] == ["message", "reasoning", "message", "message"]
    if dialect == "anthropic":
        assert last["messages"] == history


def test_an_image_does_not_end_a_conversation_with_a_model_that_reads_text_only(
    mixed: RunningGateway, upstream: ScriptedUpstream, dialect: str
) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}}
    messages = [user([image, {"type": "text", "text": "See"}])]
    upstream.script(raw={"status": 404, "json": {"error": {"message": NO_IMAGES, "code": 404}}}, times=1)

    first = ask(mixed, dialect, messages=messages)
    second = ask(mixed, dialect, messages=messages)

    assert (first.status, second.status) == (404 if dialect == "anthropic" else 200, 200)
    omitted = ["image omitted" in str(request["body"]) for request in upstream.requests()]
    assert omitted == ([False, False] if dialect == "anthropic" else [False, True, False])
