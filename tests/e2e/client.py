"""A client of the Messages API that sees every event, and can leave at any moment."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.gateway import RunningGateway

TIMEOUT_S = 120
#: Made once: reading the certificates costs more than a call, and a client of each call's own would read them anew.
TLS = ssl.create_default_context()


@dataclass(kw_only=True)
class Seen:
    """What a client saw of one call."""

    status: int
    request_id: str
    #: Headers and body of an answer that is no stream.
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    events: list[dict[str, Any]] = field(default_factory=list)
    #: The connection broke instead of ending.
    is_broken: bool = False

    @property
    def text(self) -> str:
        deltas = [event["delta"] for event in self.events if event["type"] == "content_block_delta"]
        return "".join(delta.get("text", "") for delta in deltas)

    @property
    def stop_reason(self) -> str | None:
        return next((event["delta"]["stop_reason"] for event in self.events if event["type"] == "message_delta"), None)

    @property
    def error(self) -> dict[str, Any] | None:
        """The error of the answer or of its last event; None for a good one."""
        if self.status != 200:
            error: dict[str, Any] = self.body["error"]
            return error
        last = self.events[-1] if self.events else {}
        return last["error"] if last.get("type") == "error" else None

    @property
    def ended_well(self) -> bool:
        if self.body is not None:
            return self.status == 200
        return bool(self.events) and self.events[-1]["type"] == "message_stop"


def question(model: str, text: str = "Hello", **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 1000, "messages": [{"role": "user", "content": text}], **more}


@contextmanager
def opened(gateway: RunningGateway, body: dict[str, Any]) -> Iterator[httpx.Response]:
    """Send a call; leaving the block early hangs up."""
    with (
        httpx.Client(trust_env=False, verify=TLS, timeout=TIMEOUT_S) as client,
        client.stream(
            "POST", f"{gateway.base_url}/v1/messages", json=body, headers={"x-api-key": gateway.token}
        ) as answer,
    ):
        yield answer


def ask(gateway: RunningGateway, model: str, text: str = "Hello", **more: Any) -> Seen:
    """Ask for a stream (or, with `stream=False`, a whole answer) and read it to its end."""
    with opened(gateway, question(model, text, **{"stream": True, **more})) as answer:
        return read_to_the_end(answer)


def read_to_the_end(answer: httpx.Response) -> Seen:
    seen = Seen(status=answer.status_code, request_id=answer.headers.get("request-id", ""))
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        seen.headers, seen.body = dict(answer.headers), json.loads(answer.read())
        return seen
    try:
        for event in events_of(answer):
            seen.events.append(event)
    except httpx.TransportError:
        seen.is_broken = True
    return seen


def events_of(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Cut the stream into events, and hold each to the rules that every SDK needs."""
    rest = b""
    for part in answer.iter_raw():
        *frames, rest = (rest + part).split(b"\n\n")
        for frame in frames:
            name, _, data = frame.partition(b"\n")
            event = json.loads(data.removeprefix(b"data: "))
            assert name == b"event: " + event["type"].encode(), frame
            yield event
    assert not rest, rest
