"""Requests of OpenAI clients, passed on to chat upstreams.

Only the model's name is changed, and usage asked for on streams, since the ledger needs it. All other fields, known or
not, are the client's and the upstream's own business.
"""

from dataclasses import dataclass
from typing import Any

from translator.core.errors import InvalidRequest
from translator.core.estimate import estimate_chat_tokens
from translator.core.strict_json import JsonLimits, load_object

__all__ = ["ChatRequest", "parse_chat_request", "render_chat_request"]

DEFAULT_LIMITS = JsonLimits()
MAX_MODEL_LENGTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A chat/completions request, as far as the gateway must know it."""

    #: The plain tree, which nobody changes.
    body: dict[str, Any]
    model: str
    stream: bool
    #: Whether the client itself asked for the usage chunk; else it is not to see one.
    wants_usage: bool
    #: What the client groups its calls by, for choosing the same credential again; None when it says nothing.
    session_id: str | None
    max_tokens: int | None
    input_estimate: int


def parse_chat_request(raw: bytes, *, limits: JsonLimits = DEFAULT_LIMITS) -> ChatRequest:
    """Return the chat request that `raw` holds.

    Raises:
        InvalidRequest: What is wrong, and where.
    """
    body = load_object(raw, limits)
    _check(body)
    options = body.get("stream_options")
    return ChatRequest(
        body=body,
        model=body["model"],
        stream=body.get("stream") is True,
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
        session_id=_first_text(body, "prompt_cache_key", "user"),
        max_tokens=_first_integer(body, "max_completion_tokens", "max_tokens"),
        input_estimate=estimate_chat_tokens(body),
    )


def _check(body: dict[str, Any]) -> None:
    model, messages, stream = body.get("model"), body.get("messages"), body.get("stream")
    if not isinstance(model, str) or not 0 < len(model) <= MAX_MODEL_LENGTH:
        raise InvalidRequest(path="model", reason=f"a string of 1 to {MAX_MODEL_LENGTH} characters is needed")
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest(path="messages", reason="a list with at least one message is needed")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InvalidRequest(path=f"messages.{index}", reason="an object with a role is needed")
    if stream is not None and not isinstance(stream, bool):
        raise InvalidRequest(path="stream", reason="true or false is needed")


def _first_text(body: dict[str, Any], *keys: str) -> str | None:
    return next((body[key] for key in keys if isinstance(body.get(key), str) and body[key]), None)


def _first_integer(body: dict[str, Any], *keys: str) -> int | None:
    return next((body[key] for key in keys if type(body.get(key)) is int), None)


def render_chat_request(request: ChatRequest, *, model_name: str) -> dict[str, Any]:
    """Return the body to send: the client's, for the upstream model, with usage asked for on streams."""
    body = {**request.body, "model": model_name}
    if request.stream:
        options = body.get("stream_options")
        body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return body
