"""Requests to Responses upstreams: a `MessagesRequest` in, the body to send out.

The Responses API says what chat/completions says in other words, and insists on the same order of calls and results. So
the request is first written for a chat upstream, then its keys and messages are renamed here. Stop sequences have
no word there: the gateway cuts at them itself. Nothing is stored at the upstream; reasoning it wants back travels in
the signatures of thinking blocks, as items that are sent back unchanged.

Source: https://platform.openai.com/docs/api-reference/responses/create, `openai` 3.57.0 `types/responses` (2026-11-30).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from translator.core.anthropic.request import MessagesRequest
from translator.core.facts import ModelFacts
from translator.core.openai_chat import request as chat
from translator.core.rendered import RenderedRequest
from translator.core.switches import NOTHING, Profile

__all__ = ["render_request"]

#: Keys of a chat body that go by another name, or by the same.
RENAMED: Mapping[str, str] = {
    "model": "model",
    "stream": "stream",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
    "prompt_cache_key": "prompt_cache_key",
    "safety_identifier": "safety_identifier",
    "user": "user",
    "service_tier": "service_tier",
}
#: Nothing is kept at the upstream, hence the reasoning has to be in the answer to come back with the next request.
STATELESS: Mapping[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}


def render_request(
    request: MessagesRequest, *, profile: Profile, model: ModelFacts, input_estimate: int | None = None
) -> RenderedRequest:
    """Return what to send to a Responses upstream, and what its answer must be read with.

    Args:
        request: The client's request; it is not changed.
        profile: The upstream's switches, before those of the model.
        model: The upstream model.
        input_estimate: Input tokens, if they have been estimated before; None estimates them now.

    Raises:
        InvalidRequest: Something in the request cannot be said to this upstream, nor left out with good conscience.
    """
    profile = profile.for_model(model.name)
    plain = replace(profile, reasoning_in="reasoning_items", unsupported=(), extra_body=NOTHING, by_model=NOTHING)
    rendered = chat.render_request(request, profile=plain, model=model, input_estimate=input_estimate)
    body = {**_renamed(rendered.body, shows_thinking=request.thinking.is_on), **profile.extra_body}
    return replace(rendered, body={key: value for key, value in body.items() if key not in profile.unsupported})


def _renamed(body: Mapping[str, Any], *, shows_thinking: bool) -> dict[str, Any]:
    messages = body["messages"]
    has_instructions = messages[0]["role"] == "system"
    renamed = {RENAMED[key]: value for key, value in body.items() if key in RENAMED}
    if has_instructions:
        renamed["instructions"] = messages[0]["content"]
    if "tools" in body:
        renamed["tools"] = [_tool(tool["function"]) for tool in body["tools"]]
    if "tool_choice" in body:
        renamed["tool_choice"] = _tool_choice(body["tool_choice"])
    if "response_format" in body:
        renamed["text"] = {"format": _format(body["response_format"])}
    if "reasoning_effort" in body:
        summary = {"summary": "auto"} if shows_thinking else {}
        renamed["reasoning"] = {"effort": body["reasoning_effort"], **summary}
    items = [item for message in messages[has_instructions:] for item in _items(message)]
    return {**renamed, **STATELESS, "input": items}


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool; `strict` is said either way, since its default here is true."""
    return {"type": "function", "strict": False, **function}


def _tool_choice(choice: str | Mapping[str, Any]) -> Any:
    return choice if isinstance(choice, str) else {"type": "function", "name": choice["function"]["name"]}


def _format(response_format: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": response_format["type"], **response_format.get("json_schema", {})}


def _items(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items of one chat message, in the order they came into being."""
    match message["role"]:
        case "tool":
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        case "assistant":
            yield from message.get("reasoning_items", ())
            if message.get("content"):
                yield _message("assistant", [{"type": "output_text", "text": message["content"]}])
            for call in message.get("tool_calls", ()):
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}
        case role:
            yield _message(role, _parts(message["content"]))


def _message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [_part(part) for part in content]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    match part["type"]:
        case "image_url":
            return {"type": "input_image", "image_url": part["image_url"]["url"]}
        case "file":
            return {"type": "input_file", **part["file"]}
        case _:
            return {"type": "input_text", "text": part["text"]}
