"""What the pump sees of an answer, translated or passed on."""

import json

import pytest

from tests.translator.core.upstreams import DONE, answer, chunk, decoder, finish, message, sse, tool, usage
from translator.core.anthropic.encoder import PING, Encoder
from translator.core.anthropic.message import render_message
from translator.core.anthropic.passthrough import MessageReader
from translator.core.events import UsageSource
from translator.core.exchange import Passed, Translated
from translator.core.openai_chat.errors import protocol_error
from translator.core.openai_chat.observe import ChatReader
from translator.core.openai_responses.decoder import Decoder as ResponsesDecoder
from translator.core.switches import Profile

STREAM = sse(chunk(role="assistant"), chunk(content="Hello"), finish(), usage(20, 5), DONE)
PASSED = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_up","usage":{"input_tokens":20}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"Hello"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":'
    b'{"output_tokens":5}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
FAILURE = protocol_error("boom")


def translated() -> Translated:
    encoder = Encoder(message_id="msg_1", model="m", request_id="req_1", input_estimate=100)
    return Translated(
        decoder(),
        encoder,
        lambda events: json.dumps(render_message(events, message_id="msg_1", model="m")).encode(),
        ping=PING,
    )


def passed() -> Passed:
    return Passed(MessageReader(request_id="req_1", model="m", input_estimate=100), ping=PING)


MAKERS = {"translated": (translated, STREAM), "passed": (passed, PASSED)}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_stream_from_its_first_byte_to_its_last(kind):
    make, stream = MAKERS[kind]
    exchange = make()
    assert (exchange.has_output, exchange.is_complete, exchange.is_finishing, exchange.stop_reason) == (
        False, False, False, None,
    )  # fmt: skip

    shown = exchange.feed(stream)

    assert b'"text":"Hello"' in shown
    assert shown.endswith(b'data: {"type":"message_stop"}\n\n')
    assert (exchange.has_output, exchange.is_complete, exchange.is_finishing) == (True, True, True)
    assert (exchange.stop_reason, exchange.error, exchange.notes) == ("end_turn", None, ())
    assert (exchange.usage.input_tokens, exchange.usage.output_tokens) == (20, 5)
    assert exchange.usage.source is UsageSource.UPSTREAM
    assert exchange.finish() == exchange.fail(FAILURE) == exchange.feed(stream) == b""


@pytest.mark.parametrize("kind", MAKERS)
def test_a_stream_that_is_cut_ends_with_an_error(kind):
    make, stream = MAKERS[kind]
    exchange = make()

    shown = exchange.feed(stream[: stream.index(b"Hello") + 30]) + exchange.finish()

    assert shown.rpartition(b"event: ")[2].startswith(b"error\n")
    assert exchange.error is not None
    assert exchange.is_complete


@pytest.mark.parametrize("kind", MAKERS)
def test_a_stream_can_be_failed_from_outside(kind):
    exchange = MAKERS[kind][0]()

    assert b'"message":"boom"' in exchange.fail(FAILURE)
    assert exchange.error == FAILURE


def test_a_translated_stream_can_begin_before_the_upstream_speaks():
    exchange = translated()

    assert exchange.start().startswith(b"event: message_start\n")
    assert exchange.start() == b""
    assert b"message_start" not in exchange.feed(STREAM)


def test_a_passed_stream_begins_with_the_upstreams_words():
    assert passed().start() == b""


def test_usage_is_what_is_known_so_far():
    exchange = translated()
    exchange.feed(sse(chunk(content="Hello " * 20)))

    assert exchange.usage.source is UsageSource.ESTIMATED
    assert exchange.usage.output_tokens > 20


def test_a_body_for_a_stream_becomes_the_stream():
    exchange = translated()

    shown = exchange.feed_body(message("Hello"))

    assert shown.startswith(b"event: message_start\n")
    assert exchange.is_complete


def test_a_body_for_a_passed_stream_is_no_answer():
    exchange = passed()

    assert b"event: error" in exchange.feed_body(b'{"type":"message","content":[]}')
    assert exchange.error is not None


def test_a_whole_answer_is_rendered():
    exchange = translated()

    body = json.loads(exchange.whole(message("Hello", tool_calls=[tool("{}", name="Read", id="t1")])))

    assert [block["type"] for block in body["content"]] == ["text", "tool_use"]
    assert (exchange.stop_reason, exchange.error) == ("tool_use", None)


def test_a_whole_error_is_not_rendered():
    exchange = translated()

    assert exchange.whole(b'{"error":{"message":"boom","code":429}}') == b""
    assert exchange.error is not None
    assert exchange.error.status == 429


def test_a_whole_answer_passes_to_the_letter():
    body = b' {"type": "message", "id": "msg_up", "content": [{"type": "text", "text": "Hello"}]}'
    exchange = passed()

    assert exchange.whole(body) == body
    assert exchange.upstream_id == "msg_up"


IDS = {
    "an id": ("chatcmpl-1", "chatcmpl-1"),
    "none": (None, None),
    "a number": (7, None),
    "line breaks": ("a\r\nset-cookie: x", None),
    "too long": ("x" * 201, None),
    "empty": ("", None),
    "a secret": ("id-of-sk-secret-1", None),
}


@pytest.mark.parametrize("case", IDS)
def test_the_upstreams_id_is_known_where_a_header_can_carry_it(case):
    given, expected = IDS[case]
    chat = decoder(secrets=("sk-secret-1",))
    chat.feed(sse({**chunk(content="Hello"), "id": given}, {**chunk(content="!"), "id": given}))
    responses = ResponsesDecoder(answer(), profile=Profile(), new_id=str, secrets=("sk-secret-1",))
    responses.feed(sse({"type": "response.created", "response": {"object": "response", "id": given}}))
    reader = ChatReader(model="m", input_estimate=1, max_tokens=9, hides_usage=False, secrets=("sk-secret-1",))
    reader.feed(sse({**chunk(content="Hello"), "id": given}, {**chunk(content="!"), "id": given}))
    messages = MessageReader(request_id="req_1", model="m", input_estimate=1, secrets=("sk-secret-1",))
    messages.feed(PASSED.replace(b'"msg_up"', json.dumps(given).encode()))

    assert {each.upstream_id for each in (chat, responses, reader, messages)} == {expected}


def test_translated_and_passed_tell_the_upstreams_id():
    for make, stream in MAKERS.values():
        exchange = make()
        exchange.feed(stream)

        assert exchange.upstream_id in ("c1", "msg_up")
