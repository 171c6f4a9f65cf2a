"""Requests for tests: a small legal one, with the fields that matter laid over it."""

from typing import Any

import orjson

from translator.core.anthropic.request import MessagesRequest, parse_request
from translator.core.facts import ModelFacts
from translator.core.openai_chat.request import render_request
from translator.core.profiles import profile_named
from translator.core.rendered import RenderedRequest

READ = {"name": "Read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}}
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(tool_use_id: str, name: str = "Read", tool_input: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": name, "input": tool_input or {}}


def result(tool_use_id: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, **fields}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content[0] if isinstance(content[0], str) else list(content)}


def system(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "system", "content": content, **fields}


def asked(*messages: dict[str, Any], **fields: Any) -> MessagesRequest:
    body = {"model": "claude-x", "max_tokens": 100, "messages": list(messages) or [user("Hi")], **fields}
    return parse_request(orjson.dumps(body))


def rendered(
    *messages: dict[str, Any],
    profile: str = "plain",
    switches: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    **fields: Any,
) -> RenderedRequest:
    return render_request(
        asked(*messages, **fields),
        profile=profile_named(profile, switches or {}),
        model=ModelFacts(**{"name": "up-x", **(facts or {})}),
    )


def sent(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body that goes to the upstream."""
    return rendered(*messages, **fields).body
