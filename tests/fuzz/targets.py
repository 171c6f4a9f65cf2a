"""What is fuzzed: each target takes bytes of a stranger and asserts what must hold whatever they are."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random

from tests.e2e.sdk_streams import STREAMS
from tests.translator.core import test_decoder_responses as responses
from tests.translator.core.emulation import test_detector as emulation
from tests.translator.core.emulation.texts import read
from tests.translator.core.test_encoder import STREAM as MESSAGES_STREAM
from tests.translator.core.test_stream_rules import check_inputs, check_keeps_the_rules
from tests.translator.core.upstreams import answer, decoder, encode, sse
from translator.core.anthropic.passthrough import MessageReader
from translator.core.anthropic.request import parse_request
from translator.core.errors import TranslationError
from translator.core.estimate import estimate_input_tokens
from translator.core.events import Ping
from translator.core.facts import ModelFacts
from translator.core.openai_chat.errors import read_error
from translator.core.openai_chat.observe import ChatReader
from translator.core.openai_chat.request import render_request
from translator.core.openai_responses.decoder import Decoder as ResponsesDecoder
from translator.core.profiles import PROFILES
from translator.core.sse import SSEDecoder
from translator.core.switches import Profile

__all__ = ["TARGETS"]

CHAT_STREAMS = [sse(*frames) for frames, _ in STREAMS.values() if isinstance(frames, list)]
RESPONSES_STREAMS = [stream for stream, *_ in responses.STREAMS.values()]
EMULATED_TEXTS = [text.encode() for text, *_ in (*emulation.FORMS.values(), *emulation.REPAIRS.values())]
REQUEST = {
    "model": "m",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be brief."}],
    "tools": [{"name": "Read", "input_schema": {"type": "object", "properties": {"path": {"$ref": "#/$defs/p"}}}}],
    "tool_choice": {"type": "tool", "name": "Read"},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "messages": [
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://e.example/a"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "gw1.e30"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "b", "is_error": True}]},
        {"role": "system", "content": "Go on."},
    ],
}
ERRORS = [b'{"error":{"message":"boom","type":"x","code":"y","param":null}}', b'[{"error":{"code":429}}]', b"<html>"]


def pieces(data: bytes, dice: Random) -> list[bytes]:
    """Cut the bytes as a network might."""
    step = dice.choice((1, 2, 3, 7, 50, 1000))
    return [data[at : at + step] for at in range(0, len(data), step)]


def split_frames(data: bytes, dice: Random) -> None:
    """The splitter gives the same frames however the bytes come."""
    whole, split = SSEDecoder(), SSEDecoder()

    frames = [frame for piece in pieces(data, dice) for frame in split.feed(piece)] + list(split.close())

    assert frames == [*whole.feed(data), *whole.close()]


def decode_chat(data: bytes, dice: Random) -> None:
    """Any stream becomes one that keeps the rules, and the same one however it is cut."""
    switches = {"think_tags": dice.random() < 0.2, "lenient_eof": dice.random() < 0.2}
    context = answer(stop_sequences=dice.choice(((), ("###", "4"))), parallel_tools=dice.random() < 0.9)
    whole, split = decoder(context, **switches), decoder(context, **switches)
    events = whole.feed(data) + whole.finish()
    written = encode(events)
    check_keeps_the_rules(written)
    check_inputs(written)

    again = [event for piece in pieces(data, dice) for event in split.feed(piece)] + split.finish()

    assert [e for e in again if not isinstance(e, Ping)] == [e for e in events if not isinstance(e, Ping)]
    assert split.usage == whole.usage


def decode_chat_body(data: bytes, dice: Random) -> None:
    written = encode(decoder().feed_whole(data))

    check_keeps_the_rules(written)
    check_inputs(written)


def decode_responses(data: bytes, dice: Random) -> None:
    numbers = itertools.count()
    subject = ResponsesDecoder(answer(), profile=Profile(), new_id=lambda prefix: f"{prefix}_{next(numbers)}")
    events = [event for piece in pieces(data, dice) for event in subject.feed(piece)] + subject.finish()

    check_keeps_the_rules(encode(events))


def find_calls(data: bytes, dice: Random) -> None:
    """A model's text is told the same however it is cut, nothing of it is lost, and inputs are objects."""
    text, is_truncated = data.decode(errors="replace"), dice.random() < 0.3
    told, notes, detector = read(text, is_truncated=is_truncated)

    assert read(text, step=dice.choice((1, 2, 3, 7, 50)), is_truncated=is_truncated)[:2] == (told, notes)
    assert detector.calls.count or "".join(told) == text
    calls = [part for part in told if isinstance(part, tuple)]
    is_whole = not (detector.is_broken or detector.calls.is_cut)
    assert all(isinstance(given, dict) for _, given in (calls if is_whole else calls[:-1]))


def pass_through(data: bytes, dice: Random) -> None:
    """What passes unchanged ends properly, and what is seen of it is no nonsense."""
    for subject in (
        MessageReader(request_id="req_1", model="m", input_estimate=5),
        ChatReader(model="m", input_estimate=5),
    ):
        for piece in pieces(data, dice):
            subject.feed(piece)
        subject.finish()
        assert subject.is_done
        assert 0 <= subject.usage.output_tokens <= 10**9


def read_request(data: bytes, dice: Random) -> None:
    """A request is refused in words, or said to an upstream."""
    try:
        request = parse_request(data)
        profile = PROFILES[dice.choice(sorted(PROFILES))]
        facts = ModelFacts(name="up", tools=dice.choice(("native", "emulated")))
        body = render_request(request, profile=profile, model=facts).body
    except TranslationError:
        return
    assert body["messages"]
    assert estimate_input_tokens(request) >= 1


def read_failure(data: bytes, dice: Random) -> None:
    error = read_error(dice.choice((400, 401, 429, 500, 503)), {}, data, requested_model="m", secrets=("sk-secret",))

    assert error.status >= 400
    assert "sk-secret" not in error.message


#: By name: what runs, and the inputs to begin with.
TARGETS: Mapping[str, tuple[Callable[[bytes, Random], None], Sequence[bytes]]] = {
    "split_frames": (split_frames, CHAT_STREAMS),
    "decode_chat": (decode_chat, CHAT_STREAMS),
    "decode_chat_body": (decode_chat_body, [b.split(b"\n\n")[0].removeprefix(b"data: ") for b in CHAT_STREAMS]),
    "decode_responses": (decode_responses, RESPONSES_STREAMS + CHAT_STREAMS),
    "find_calls": (find_calls, EMULATED_TEXTS),
    "pass_through": (pass_through, [MESSAGES_STREAM.encode(), *CHAT_STREAMS]),
    "read_request": (read_request, [json.dumps(REQUEST).encode()]),
    "read_failure": (read_failure, ERRORS),
}
