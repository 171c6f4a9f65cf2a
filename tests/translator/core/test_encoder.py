"""Events as a Messages stream, and as a whole message."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.core.anthropic.encoder import Encoder
from translator.core.anthropic.errors import render_error
from translator.core.anthropic.message import render_message, render_usage
from translator.core.errors import AnswerFailed, ClientError, ErrorType, to_client_error
from translator.core.events import (
    BlockStart,
    BlockStop,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    StopReason,
    StreamFailed,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
    Usage,
)
from translator.core.order import ORDER, State, next_state

FAILED = StreamFailed(error=ClientError(status=500, type=ErrorType.API, message="boom"))
END = MessageDelta(
    stop_reason=StopReason.TOOL_USE,
    usage=Usage(input_tokens=20, cache_read_tokens=100, output_tokens=30, thinking_tokens=7),
)
MESSAGE = [
    MessageStart(),
    BlockStart(block=ThinkingBlock()),
    ThinkingDelta(thinking="Need "),
    ThinkingDelta(thinking="two."),
    SignatureDelta(signature="gw1.e30"),
    BlockStop(),
    BlockStart(block=TextBlock()),
    TextDelta(text="Read"),
    TextDelta(text='ing "both"\n雨🚀\u2028'),
    BlockStop(),
    Ping(),
    BlockStart(block=ToolUseBlock(id="call_a", name="Read")),
    InputJsonDelta(partial_json='{"path"'),
    InputJsonDelta(partial_json=':"a"}'),
    BlockStop(),
    END,
    MessageStop(),
]
STREAM = """\
event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Need "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"two."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"gw1.e30"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Read"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"ing \\"both\\"\\n雨🚀\u2028"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_a","name":"Read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"path\\""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":":\\"a\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":100,"output_tokens":30,"output_tokens_details":{"thinking_tokens":7}}}

event: message_stop
data: {"type":"message_stop"}

"""


def encoder() -> Encoder:
    return Encoder(message_id="msg_1", model="m", request_id="req_1", input_estimate=100)


def test_a_message_is_written_to_the_letter():
    assert encoder().encode_all(MESSAGE).decode() == STREAM


def test_one_by_one_gives_the_same_bytes():
    subject = encoder()

    assert b"".join(subject.encode(event) for event in MESSAGE).decode() == STREAM
    assert subject.state is State.ENDED


def test_counts_that_are_known_are_told_at_the_start():
    data = encoder().encode(MessageStart(usage=Usage(input_tokens=7, cache_read_tokens=3)))

    assert b'"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,' in data


def test_text_without_its_block_is_a_bug():
    with pytest.raises(AssertionError, match="TextDelta in state open"):
        encoder().encode_all([MessageStart(), TextDelta(text="x")])


def test_details_of_a_refusal_are_written():
    details = {"type": "refusal", "category": None, "explanation": "No."}
    end = MessageDelta(stop_reason=StopReason.REFUSAL, stop_details=details, usage=Usage())
    data = encoder().encode_all([MessageStart(), end])

    assert b'"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal",' in data


def test_a_failure_is_an_error_event():
    assert encoder().encode(FAILED) == (
        b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"boom"},"request_id":"req_1"}\n\n'
    )


def test_details_of_an_error_are_written():
    error = ClientError(status=400, type=ErrorType.INVALID_REQUEST, message="no", details={"error_code": "x"})

    assert render_error(error, "req_1")["error"]["details"] == {"error_code": "x"}


def test_a_whole_message_is_what_a_client_puts_together():
    whole = render_message(MESSAGE, message_id="msg_1", model="m")

    assert json.loads(json.dumps(whole)) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Need two.", "signature": "gw1.e30"},
            {"type": "text", "text": 'Reading "both"\n雨🚀\u2028'},
            {"type": "tool_use", "id": "call_a", "name": "Read", "input": {"path": "a"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "usage": render_usage(END.usage),
    }


def test_a_failed_message_is_none():
    with pytest.raises(AnswerFailed) as caught:
        render_message([MessageStart(), FAILED], message_id="msg_1", model="m")

    assert to_client_error(caught.value) is FAILED.error


SAMPLES: Mapping[type, object] = {
    MessageStart: MessageStart(),
    TextBlock: BlockStart(block=TextBlock()),
    ThinkingBlock: BlockStart(block=ThinkingBlock()),
    ToolUseBlock: BlockStart(block=ToolUseBlock(id="x", name="y")),
    TextDelta: TextDelta(text="x"),
    ThinkingDelta: ThinkingDelta(thinking="x"),
    SignatureDelta: SignatureDelta(signature="x"),
    InputJsonDelta: InputJsonDelta(partial_json="{}"),
    BlockStop: BlockStop(),
    MessageDelta: END,
    MessageStop: MessageStop(),
    Ping: Ping(),
    StreamFailed: FAILED,
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_only_what_the_table_allows_is_written(state, kind):
    if kind in ORDER[state]:
        assert next_state(state, SAMPLES[kind]) is ORDER[state][kind]
    else:
        with pytest.raises(AssertionError, match="in state"):
            next_state(state, SAMPLES[kind])


def test_every_state_can_be_reached_and_left():
    reached = {State.UNSTARTED} | {state for row in ORDER.values() for state in row.values()}

    assert set(ORDER) == reached == set(State)
    assert [state for state in State if not ORDER[state]] == [State.ENDED]


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_survives(text):
    data = encoder().encode_all([MessageStart(), BlockStart(block=TextBlock()), TextDelta(text=text)])
    line = data.rstrip(b"\n").rsplit(b"\n", 1)[1]

    assert json.loads(line.removeprefix(b"data: "))["delta"]["text"] == text
