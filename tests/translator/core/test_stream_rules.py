"""Whatever an upstream sends, what the client gets keeps the rules that official SDKs rely on."""

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.upstreams import DONE, answer, chunk, decoder, encode, finish, sse, tool, usage
from translator.core.events import Ping
from translator.core.tool_json import ObjectReader

TEXTS = st.sampled_from(
    ["", " ", "\n\n", "Hello", "###", "#", "<think>", "</think>", "<", "雨🚀", "a\u2028b", "\u0000"]
)
FRAGMENTS = st.sampled_from(["", "{", "}", '{"a":', '"x', '"', "{}", '{"a":1}', "'", "null", " ", "[1]", "\\", "\n", '{"a":1}{"a":1}', '"{}"'])  # fmt: skip
JUNK = st.sampled_from([None, 7, [], {}, "x", True, [7], {"a": 1}, -1, 1.5])
NAMES = st.sampled_from(["Read", "Re", "ad", "Bash", "", "Rm", None, 7])
IDS = st.sampled_from(["a", "b", "", None, "functions.Read:0", 7])
INDEXES = st.sampled_from([0, 1, 2, None, "x", -1])


@st.composite
def calls(draw):
    entry = tool(draw(FRAGMENTS | JUNK), name=draw(NAMES))
    for key, values in (("id", IDS), ("index", INDEXES)):
        if draw(st.booleans()):
            entry[key] = draw(values)
    return entry


DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": TEXTS | JUNK | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking", "x"]), "text": TEXTS, "thinking": TEXTS | JUNK}), max_size=2),
        "reasoning": TEXTS | JUNK,
        "reasoning_content": TEXTS | JUNK,
        "reasoning_details": JUNK | st.lists(st.fixed_dictionaries({"type": st.just("reasoning.text"), "text": TEXTS | JUNK, "index": JUNK}), max_size=2),
        "tool_calls": st.lists(calls() | JUNK, max_size=3) | JUNK,
        "function_call": calls() | JUNK,
        "refusal": TEXTS | JUNK,
        "audio": JUNK,
        "images": JUNK,
    },
)  # fmt: skip
CHUNKS = st.one_of(
    DELTAS.map(lambda delta: chunk(**delta)),
    st.builds(lambda delta, word: {"choices": [{"delta": delta, "finish_reason": word}]}, DELTAS, st.sampled_from(["error", "stop", "length"])),
    st.builds(finish, st.sampled_from(["stop", "length", "tool_calls", "content_filter", "error", "x"]) | JUNK, stop_reason=TEXTS | JUNK),
    st.builds(usage, st.integers(-5, 10**9) | JUNK, st.integers(-5, 10**9) | JUNK, cached_tokens=JUNK, total_tokens=st.integers(0, 200)),
    st.fixed_dictionaries({}, optional={"error": JUNK | TEXTS, "choices": JUNK, "usage": JUNK, "x_groq": JUNK, "object": st.just("error"), "message": TEXTS}),
    st.sampled_from([DONE, "", "{", "[]", '{"choices":[{"delta":{"content":"\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude80"}}]}']),
)  # fmt: skip
STREAMS = st.lists(CHUNKS, max_size=25).map(lambda chunks: sse(*chunks))
CONTEXTS = st.builds(
    answer,
    show_thinking=st.booleans(),
    omit_thinking_text=st.booleans(),
    parallel_tools=st.booleans(),
    stop_sequences=st.sampled_from([(), ("###",), ("Hello", "#")]),
    max_tokens=st.sampled_from([None, 1, 100]),
    history_tool_ids=st.sampled_from([frozenset(), frozenset({"a"})]),
)
SWITCHES = st.fixed_dictionaries({"think_tags": st.booleans(), "lenient_eof": st.booleans()})


def frames(data: bytes) -> list[dict]:
    """Return the events of a stream as the SDKs read them, each checked for its form."""
    assert not data or data.endswith(b"\n\n")
    parsed = []
    for frame in data.decode().split("\n\n")[:-1]:
        name, line = frame.split("\n")
        event = json.loads(line.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        parsed.append(event)
    return parsed


def check_keeps_the_rules(data: bytes) -> None:
    events = [event for event in frames(data) if event["type"] != "ping"]
    kinds = [event["type"] for event in events]
    count = Counter(kinds)
    assert events, "the client is told something"
    assert kinds[-1] in ("message_stop", "error")
    assert count["error"] + count["message_stop"] == 1
    if kinds[0] == "error":
        assert len(kinds) == 1
        return
    assert kinds[0] == "message_start"
    assert count["message_start"] == 1
    check_start(events[0]["message"])
    check_blocks(events[1:])
    if kinds[-1] == "message_stop":
        assert kinds[-2] == "message_delta"
        assert count["message_delta"] == 1
        check_usage(events[-2]["usage"])
        assert isinstance(events[-2]["delta"]["stop_reason"], str)
        assert (events[-2]["delta"]["stop_reason"] == "stop_sequence") == (events[-2]["delta"]["stop_sequence"] is not None)  # fmt: skip


def check_start(message: dict) -> None:
    assert message["content"] == []
    assert (message["type"], message["role"], message["stop_reason"]) == ("message", "assistant", None)
    assert message["id"]
    check_usage(message["usage"])


def check_usage(counts: dict) -> None:
    for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
        assert isinstance(counts[key], int)
        assert 0 <= counts[key] <= 10**9


def check_blocks(events: list[dict]) -> None:
    """Blocks are numbered without a gap, one open at a time, and deltas are of its kind."""
    index, kind, inputs, ids = -1, None, "", []
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert kind is None
                index, kind, inputs = index + 1, event["content_block"]["type"], ""
                assert event["index"] == index
                check_block_start(event["content_block"], ids)
            case "content_block_delta":
                assert event["index"] == index
                inputs += check_delta(event["delta"], kind)
            case "content_block_stop":
                assert event["index"] == index
                assert kind is not None
                assert kind != "tool_use" or inputs
                kind = None
            case "message_delta":
                assert kind is None
    assert len(ids) == len(set(ids))


def check_block_start(block: dict, ids: list[str]) -> None:
    match block["type"]:
        case "text":
            assert block == {"type": "text", "text": ""}
        case "thinking":
            assert block == {"type": "thinking", "thinking": "", "signature": ""}
        case "tool_use":
            assert block["input"] == {}
            assert block["name"]
            ids.append(block["id"])


def check_delta(delta: dict, kind: str | None) -> str:
    match delta:
        case {"type": "text_delta", "text": str(text)}:
            assert (kind, bool(text)) == ("text", True)
        case {"type": "thinking_delta", "thinking": str()} | {"type": "signature_delta", "signature": str()}:
            assert kind == "thinking"
        case {"type": "input_json_delta", "partial_json": str(text)}:
            assert kind == "tool_use"
            return text
        case _:
            raise AssertionError(delta)
    return ""


def check_inputs(data: bytes) -> None:
    """The input of each call is at any time the beginning of a JSON object."""
    readers: dict[int, ObjectReader] = {}
    for event in frames(data):
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            reader = readers.setdefault(event["index"], ObjectReader())
            piece = event["delta"]["partial_json"]
            assert reader.feed(piece) == piece
            assert not reader.is_broken


@given(stream=STREAMS, context=CONTEXTS, switches=SWITCHES)
def test_any_chunks_make_a_stream_that_keeps_the_rules(stream, context, switches):
    subject = decoder(context, **switches)
    data = encode(subject.feed(stream) + subject.finish())

    check_keeps_the_rules(data)
    check_inputs(data)


@given(stream=STREAMS, context=CONTEXTS, switches=SWITCHES, cuts=st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_the_split_does_not_matter(stream, context, switches, cuts):
    whole, split = decoder(context, **switches), decoder(context, **switches)
    events, at = [], 0
    while at < len(stream):
        step = cuts[at % len(cuts)]
        events += split.feed(stream[at : at + step])
        at += step
    events += split.finish()

    assert [e for e in events if not isinstance(e, Ping)] == whole.feed(stream) + whole.finish()
    assert split.usage == whole.usage
    assert split.notes == whole.notes


@given(
    stream=st.binary(max_size=200)
    | STREAMS.map(lambda s: s.replace(b"data: ", b""))
    | STREAMS.map(lambda s: s[: len(s) // 2])
)
def test_any_bytes_make_a_stream_that_keeps_the_rules(stream):
    subject = decoder()

    check_keeps_the_rules(encode(subject.feed(stream) + subject.finish()))


@given(body=st.binary(max_size=200) | CHUNKS.map(lambda value: json.dumps(value).encode()) | STREAMS)
def test_any_body_makes_a_message_that_keeps_the_rules(body):
    data = encode(decoder().feed_whole(body))

    check_keeps_the_rules(data)
    check_inputs(data)


@given(stream=STREAMS)
def test_text_of_the_upstream_forges_no_event(stream):
    """No frame of the client's stream comes from anywhere but the encoder's own lines."""
    subject = decoder()
    data = encode(subject.feed(stream) + subject.finish())

    for line in data.split(b"\n"):
        assert line == b"" or line.startswith((b"event: ", b"data: {"))
