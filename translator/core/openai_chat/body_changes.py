"""What a refusal changes in a body beyond one key: each change takes a chat or Responses body and returns another.

A change that finds nothing to change returns an equal body.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from translator.core.openai_chat.blocks import NO_IMAGES, joined_text
from translator.core.openai_chat.plain_schemas import in_plain_words

__all__ = ["CHANGES", "Change", "changes"]

type Body = Mapping[str, Any]
type Change = Literal["plain", "textual", "unreasoned", "unsummarised", "streamed"]

#: How both APIs name a part with an image, and the part with words that stands for it.
IMAGES = {"image_url": "text", "input_image": "input_text"}


def _plain(body: Body) -> dict[str, Any]:
    """Say tools with the schemas that every upstream takes."""
    return {**body, "tools": in_plain_words(body["tools"])} if "tools" in body else {**body}


def _textual(body: Body) -> dict[str, Any]:
    """Put words in the place of images."""
    return {
        **body,
        **{key: [_without_images(item) for item in body[key]] for key in ("messages", "input") if key in body},
    }


def _without_images(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if not isinstance(content, list) or all(part["type"] not in IMAGES for part in content):
        return item
    parts = [{"type": IMAGES[p["type"]], "text": NO_IMAGES} if p["type"] in IMAGES else p for p in content]
    return {**item, "content": joined_text(parts) if all(part["type"] == "text" for part in parts) else parts}


def _unreasoned(body: Body) -> dict[str, Any]:
    """Leave out the reasoning of earlier turns."""
    items = [item for item in body.get("input", ()) if item.get("type") != "reasoning"]
    return {**body, "input": items} if "input" in body else {**body}


def _unsummarised(body: Body) -> dict[str, Any]:
    """Ask for no summary of the reasoning: OpenAI shows it to organisations that it has verified."""
    asked = {key: value for key, value in body.get("reasoning", {}).items() if key != "summary"}
    return {**body, "reasoning": asked} if "reasoning" in body else {**body}


def _streamed(body: Body) -> dict[str, Any]:
    """Ask for a stream, of which the reader makes a whole answer."""
    options = {"stream_options": {"include_usage": True}} if "messages" in body else {}
    return {**body} if body.get("stream") else {**body, "stream": True, **options}


CHANGES: Mapping[Change, Callable[[Body], dict[str, Any]]] = {
    "plain": _plain,
    "textual": _textual,
    "unreasoned": _unreasoned,
    "unsummarised": _unsummarised,
    "streamed": _streamed,
}


def changes(change: Change, body: Body) -> bool:
    """Tell whether a change makes a difference."""
    return CHANGES[change](body) != body
