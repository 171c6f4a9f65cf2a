"""What the playground shows of an attempt: everything but our secrets."""

from typing import Any, cast

import orjson

from keys.entries import CredentialEntry, UpstreamEntry
from translator.calls import Goal
from translator.core.anthropic.request import parse_request
from translator.messages_call import MessagesCall
from translator.playground import HEARD_MAX, MASK, WatchedCall

SECRET = "sk-canary-7f3a9b2c4d5e6f"


def goal(dialect: str = "openai_chat") -> Goal:
    upstream = UpstreamEntry(
        id=1,
        name="acme",
        dialect=dialect,
        base_url=f"https://user:{SECRET}@acme.example/v1",
        profile="",
        profile_overrides={},
        connect_timeout_s=1,
        first_byte_timeout_s=1,
        idle_timeout_s=1,
        total_timeout_s=1,
    )
    limits: dict[str, Any] = {"rpm": None, "tpm": None, "concurrency": None}
    credential = CredentialEntry(
        id=1,
        upstream_id=1,
        label="key-1",
        last_four="5e6f",
        enabled=True,
        draining=False,
        priority=0,
        weight=1,
        opened=SECRET,
        **limits,
    )
    return Goal(upstream=upstream, model_name="m", model=None, credential=credential)


def watched(text: str = "Hello", *, stream: bool = False) -> WatchedCall:
    body = {"model": "m", "max_tokens": 5, "stream": stream, "messages": [{"role": "user", "content": text}]}
    raw = orjson.dumps(body)
    call = MessagesCall(parse_request(raw), size=len(raw), request_id="req_1", session_id=None, estimate=1, headers=())
    return WatchedCall(cast("Any", call))


def test_the_credential_is_masked_in_every_dialect() -> None:
    for dialect in ("openai_chat", "openai_responses", "anthropic"):
        call = watched(f"my key is {SECRET}")

        prepared = call.prepare(goal(dialect), ())

        assert SECRET in str(prepared.headers), "what is sent carries it"
        (sent,) = call.sent
        assert SECRET not in sent.url + str(sent.headers) + sent.body
        assert MASK in sent.headers.values()


def test_an_error_is_kept_and_masked() -> None:
    call = watched()
    prepared = call.prepare(goal(), ())

    error = prepared.read_error(401, {}, f"wrong key {SECRET}".encode())

    assert error.status >= 400
    assert call.sent[0].answer == f"wrong key {MASK}"


def test_a_stream_is_kept_as_it_came_up_to_a_limit() -> None:
    call = watched(stream=True)
    prepared = call.prepare(goal(), ())
    frame = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'

    shown = prepared.exchange.feed(frame)
    prepared.exchange.feed(b": " + b"x" * HEARD_MAX + b"\n\n")

    assert b"text_delta" in shown
    assert call.sent[0].answer.startswith(frame.decode())
    assert len(call.sent[0].heard) == HEARD_MAX


def test_a_watched_call_asks_like_the_call_itself() -> None:
    call = watched(stream=True)

    assert (call.alias, call.stream, call.max_tokens, call.estimate) == ("m", True, 5, 1)
