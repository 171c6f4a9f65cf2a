"""Events and answers of the Responses API, renamed to what chat/completions would send.

The Responses API says the same in other words; so its answers are renamed here and then read as a chat upstream's.
Reasoning items that the upstream wants back are kept whole. Built-in tools' items and events are ignored: none is asked for.

Source: https://platform.openai.com/docs/api-reference/responses-streaming, `openai` 3.57.0 `types/responses` (2026-11-30).
"""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["LAST", "ChunkRenamer"]

#: Types of the events after which nothing comes.
LAST = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.canceled"}
)
FINISHES: Mapping[str, str] = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ChunkRenamer:
    """Rename one answer, event by event."""

    def __init__(self) -> None:
        """Start before the first event."""
        #: Outputs of which a delta came: their final text is known already.
        self._told: set[tuple[str, Any]] = set()
        #: Whether an item was told whole.
        self._has_items = False

    def rename(self, event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the chat chunks that say what an event says; none for events that say nothing."""
        match event:
            case {"type": "response.output_text.delta", "delta": str(text)}:
                yield self._told_delta("text", event, {"content": text})
            case {"type": "response.refusal.delta", "delta": str(text)}:
                yield self._told_delta("text", event, {"refusal": text})
            case {"type": "response.reasoning_summary_part.added", "summary_index": int(index)} if index > 0:
                yield _chunk({"reasoning_content": "\n\n"})
            case {
                "type": "response.reasoning_summary_text.delta" | "response.reasoning_text.delta",
                "delta": str(text),
            }:
                yield self._told_delta("reasoning", event, {"reasoning_content": text})
            case {"type": "response.output_item.added", "item": {"type": "function_call"} as item}:
                yield _chunk({"tool_calls": [_call(event, item, "")]})
            case {"type": "response.function_call_arguments.delta", "delta": str(arguments)}:
                yield self._told_delta("call", event, {"tool_calls": [_call(event, {}, arguments)]})
            case {
                "type": "response.function_call_arguments.done",
                "arguments": str(arguments),
            } if arguments and ("call", _index(event)) not in self._told:
                yield self._told_delta("call", event, {"tool_calls": [_call(event, {}, arguments)]})
            case {"type": "response.output_item.added"}:
                yield _chunk({})
            case {"type": "response.output_item.done", "item": dict(item)}:
                yield from self._item(event, item)
            case {"type": str(type_)} if type_ in LAST:
                response = event.get("response")
                yield from self._last(response if isinstance(response, dict) else {"status": "failed"})
            case {"type": "error"}:
                yield {"error": event}

    def rename_whole(self, response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the chat chunks that say what a whole answer says."""
        yield from self._output(response)
        yield _end(response)

    def _last(self, response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what the last event says: all of it where no event before it told anything."""
        if not (self._told or self._has_items):
            yield from self._output(response)
        yield _end(response)

    def _output(self, response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else []):
            if isinstance(item, dict):
                yield from self._item({"output_index": index}, item)

    def _told_delta(self, kind: str, event: Mapping[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
        self._told.add((kind, _index(event)))
        return _chunk(delta)

    def _item(self, event: Mapping[str, Any], item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what a finished item says beyond its deltas."""
        self._has_items = True
        index = _index(event)
        match item:
            case {"type": "message", "content": list(parts)} if ("text", index) not in self._told:
                yield from map(_part, parts)
            case {"type": "function_call"}:
                is_told = ("call", index) in self._told
                yield _chunk({"tool_calls": [_call(event, item, "" if is_told else item.get("arguments") or "")]})
            case {"type": "reasoning"}:
                if ("reasoning", index) not in self._told and (text := _reasoning(item)):
                    yield _chunk({"reasoning_content": text})
                if item.get("encrypted_content"):
                    yield _chunk({"reasoning_items": [_kept(item)]})


def _chunk(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"delta": delta}]}


def _part(part: Any) -> dict[str, Any]:
    match part:
        case {"type": "refusal", "refusal": refusal}:
            return _chunk({"refusal": refusal})
        case _:
            return _chunk({"content": [part]})


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0


def _call(event: Mapping[str, Any], item: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    return {
        "index": _index(event),
        "id": item.get("call_id"),
        "function": {"name": item.get("name"), "arguments": arguments},
    }


def _reasoning(item: Mapping[str, Any]) -> str:
    parts = item.get("summary") or item.get("content")
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _kept(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item as it goes back; its status and its visible content are the upstream's own business."""
    kept = {key: item[key] for key in ("type", "id", "encrypted_content") if key in item}
    return kept | {"summary": item.get("summary") or []}


def _end(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chunk that ends the answer."""
    match response:
        case {"error": error} if error:
            return {"error": error}
        case {"status": "failed" | "cancelled" | "canceled"}:
            return {"error": {"message": "upstream failed to finish the answer"}}
        case {"incomplete_details": {"reason": str(reason)}}:
            finish = FINISHES.get(reason, reason)
        case _:
            finish = "stop"
    return {"choices": [{"delta": {}, "finish_reason": finish}], "usage": response.get("usage")}
