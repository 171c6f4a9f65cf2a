"""What the official Python SDK puts together from the encoder's bytes."""

import anthropic
import httpx2
import pytest

from tests.translator.core import (
    test_decoder_reasoning as reasoning,
)
from tests.translator.core import (
    test_decoder_stop as stop,
)
from tests.translator.core import (
    test_decoder_streams as streams,
)
from tests.translator.core import (
    test_decoder_tools as tools,
)
from tests.translator.core.upstreams import (
    DONE,
    answer,
    chunk,
    decode,
    decoder,
    encode,
    finish,
    message,
    sse,
    tool,
    usage,
)

FULL = sse(
    chunk(role="assistant", content=""),
    chunk(reasoning_content="Need two files."),
    chunk(content="Reading both."),
    chunk(tool_calls=[tool("", name="Read", index=0, id="call_a"), tool("", name="Read", index=1, id="call_b")]),
    chunk(tool_calls=[tool('{"path":"b"}', index=1)]),
    chunk(tool_calls=[tool('{"path":"a"}', index=0)]),
    finish("stop"),
    usage(120, 30, prompt_tokens_details={"cached_tokens": 100}),
    DONE,
)


def stream_of(data: bytes, *, model: str = "m"):
    """Return the SDK's stream over bytes that a server would send."""
    headers = {"content-type": "text/event-stream", "request-id": "req_1"}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, headers=headers, content=data))
    client = anthropic.Anthropic(api_key="x", max_retries=0, http_client=httpx2.Client(transport=transport))
    return client.messages.stream(model=model, max_tokens=9, messages=[{"role": "user", "content": "hi"}])


def accumulated(data: bytes) -> dict[str, object]:
    with stream_of(data) as stream:
        final = stream.get_final_message()
    blocks = []
    for block in final.content:
        match block.type:
            case "text":
                blocks.append(block.text)
            case "thinking":
                blocks.append(("thinking", block.thinking))
            case _:
                blocks.append((block.id, block.name, block.input))
    return {"blocks": blocks, "stop": final.stop_reason}


@pytest.mark.parametrize("quirk", streams.STREAMS)
def test_text(quirk):
    stream, expected = streams.STREAMS[quirk]

    assert accumulated(encode(decode(stream))) == expected


@pytest.mark.parametrize("quirk", tools.STREAMS)
def test_tool_calls(quirk):
    stream, expected = tools.STREAMS[quirk]
    got = accumulated(encode(decode(stream)))

    if quirk != "out of tokens within a call":  # the SDK keeps what it can of the last value
        assert got == expected


@pytest.mark.parametrize("dialect", reasoning.STREAMS)
def test_reasoning(dialect):
    assert accumulated(encode(decode(reasoning.STREAMS[dialect]))) == reasoning.SHOWN


@pytest.mark.parametrize("quirk", streams.FAILURES)
def test_a_failure_is_raised(quirk):
    data = encode(decode(streams.FAILURES[quirk][0]))

    with pytest.raises(anthropic.APIStatusError) as caught:
        accumulated(data)

    assert caught.value.type == streams.FAILURES[quirk][1]["error"][0]


def test_everything_at_once():
    with stream_of(encode(decode(FULL))) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()

    assert [block.type for block in final.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert final.content[0].signature.startswith("gw1.")
    assert [block.input for block in final.content[2:]] == [{"path": "a"}, {"path": "b"}]
    assert (final.usage.input_tokens, final.usage.cache_read_input_tokens, final.usage.output_tokens) == (20, 100, 30)
    assert (final.id, final.model, final.stop_reason) == ("msg_1", "m", "tool_use")
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert kinds.count("content_block_stop") == 4


def test_a_stop_sequence():
    data = encode(decode(sse(chunk(content="one###"), finish()), lambda: decoder(answer(stop_sequences=stop.STOPS))))

    with stream_of(data) as stream:
        assert stream.get_final_message().stop_sequence == "###"


def test_a_whole_answer_as_a_stream():
    body = message("Look.", reasoning="b", tool_calls=[tool('{"path":"a"}', name="Read", id="call_a")])

    assert accumulated(encode(decoder().feed_whole(body))) == {
        "blocks": [("thinking", "b"), "Look.", ("call_a", "Read", {"path": "a"})],
        "stop": "tool_use",
    }
