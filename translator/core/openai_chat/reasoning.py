"""Reasoning in an upstream's answer, in each of its dialects.

* `reasoning_content`: DeepSeek, NVIDIA NIM, llama.cpp, older vLLM
* `reasoning`: vLLM, OpenRouter, Ollama, Groq
* `reasoning_text`: GitHub Copilot
* `thinking`: Ollama's own API, and what stands before it
* `reasoning_details`: OpenRouter; a list that the upstream wants back unchanged

Some upstreams send the same text under two or three of these keys; it is read once. What must go back to the upstream
travels in the signature: `gw1.` and base64url of a JSON object, with `reasoning_details`, with the `reasoning_items`
of a Responses upstream, or with the `thinking` that the client asked not to see.

Sources: https://api-docs.deepseek.com/guides/thinking_mode, https://openrouter.ai/docs/use-cases/reasoning-tokens,
https://docs.vllm.ai/en/latest/features/reasoning_outputs.html (all read 2026-11-30).
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import orjson

__all__ = ["ReasoningState", "reasoning_text"]

SIGNATURE_PREFIX = "gw1."
#: Where the text may stand, best place first.
TEXT_KEYS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
#: Keys of a detail whose text comes in pieces.
PIECES = ("text", "summary", "data", "signature")
#: State kept for the way back; an upstream that sends more gets none back.
MAX_STATE_BYTES = 1024 * 1024


class ReasoningState:
    """What of the reasoning must come back with the next request, gathered until a thinking block closes."""

    def __init__(self, *, keep_text: bool) -> None:
        """Start empty.

        Args:
            keep_text: Whether the text goes into the signature, since the client will not have it.
        """
        self._keep_text = keep_text
        self._texts: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._items: list[dict[str, Any]] = []
        self._size = 0

    @property
    def is_pending(self) -> bool:
        """Whether there is state that no signature has carried yet."""
        return bool(self._details or self._items)

    def add_text(self, text: str) -> None:
        """Remember the text, if it would be lost otherwise."""
        if self._keep_text:
            self._texts.append(text)

    def add_details(self, details: Any) -> bool:
        """Remember OpenRouter's details, pieces of one detail joined; False when there were none."""
        found = _objects(details)
        for detail in found:
            self._size += _size(detail)
            if self._size <= MAX_STATE_BYTES:
                self._add_detail(detail)
        return bool(found)

    def add_items(self, items: Any) -> bool:
        """Remember items that the upstream wants back as they are; False when there were none."""
        found = _objects(items)
        for item in found:
            self._size += _size(item)
            if self._size <= MAX_STATE_BYTES:
                self._items.append(item)
        return bool(found)

    def sign(self) -> str:
        """Return the signature of the block that closes, and start anew."""
        state: dict[str, Any] = {}
        if self._size <= MAX_STATE_BYTES and self._details:
            state["reasoning_details"] = [_joined(detail) for detail in self._details]
        if self._size <= MAX_STATE_BYTES and self._items:
            state["reasoning_items"] = self._items
        if self._texts:
            state["thinking"] = "".join(self._texts)
        self._texts, self._details, self._items, self._size = [], [], [], 0
        return SIGNATURE_PREFIX + urlsafe_b64encode(orjson.dumps(state)).decode().rstrip("=")

    def _add_detail(self, detail: dict[str, Any]) -> None:
        last = self._details[-1] if self._details else None
        if last is None or last.get("type") != detail.get("type") or last.get("index") != detail.get("index"):
            last = {}
            self._details.append(last)
        for key, value in detail.items():
            if key not in PIECES:
                last[key] = value if value is not None else last.get(key)
            elif isinstance(value, str):
                last.setdefault(key, []).append(value)


def reasoning_text(delta: Mapping[str, Any]) -> str:
    """Return the reasoning in a delta or message; empty when there is none."""
    for key in TEXT_KEYS:
        value = delta.get(key)
        if value and isinstance(value, str):
            return value
    details = delta.get("reasoning_details")
    return "".join(map(_detail_text, details)) if isinstance(details, list) else ""


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _size(detail: dict[str, Any]) -> int:
    try:
        return len(orjson.dumps(detail))
    except orjson.JSONEncodeError:  # nested deeper than could be sent back
        return MAX_STATE_BYTES + 1


def _detail_text(detail: Any) -> str:
    if not isinstance(detail, dict):
        return ""
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def _joined(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {key: "".join(value) if key in PIECES else value for key, value in detail.items()}
