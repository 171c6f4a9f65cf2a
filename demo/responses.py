"""OpenAI's Responses API, in its simple forms: text, reasoning summaries and function calls.

Source: https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11).
Not done: stored responses, built-in tools, refusals, annotations.
"""

import secrets
import time
from collections.abc import Iterator
from itertools import count

from demo.answer import Answer, Piece
from demo.ask import Ask, read_responses
from demo.frames import JSON, Dialect, Failure, Frame, event_frame
from demo.script import Script


def frames(answer: Answer, ask: Ask, script: Script) -> Iterator[Frame]:
    """Write the answer as events; calls that come in turns stay so, told apart by `output_index`."""
    numbers = count()

    def frame(payload: JSON, piece: Piece | None = None, *, is_end: bool = False, has_usage: bool = False) -> Frame:
        data = event_frame({**payload, "sequence_number": next(numbers)})
        tokens = piece.tokens if piece else 0
        return Frame(data=data, tokens=tokens, is_output=piece is not None, is_end=is_end, has_usage=has_usage)

    response = {**_response(ask), "status": "in_progress", "output": [], "usage": None}
    yield frame({"type": "response.created", "response": response})
    yield frame({"type": "response.in_progress", "response": response})
    items = _items(answer)
    opened: set[int] = set()
    for piece in answer.pieces:
        place = _place(items, answer, piece)
        at = {"output_index": place, "item_id": items[place]["id"]}
        if place not in opened:
            opened.add(place)
            is_call = piece.kind == "call"
            added = {"type": "response.output_item.added", "output_index": place, "item": _empty(items[place])}
            yield frame(added, piece if is_call else None)
            if piece.kind == "text":
                yield frame({"type": "response.content_part.added", **at, "content_index": 0, "part": _part("")})
            if piece.kind == "reasoning":
                part = {"type": "summary_text", "text": ""}
                yield frame({"type": "response.reasoning_summary_part.added", **at, "summary_index": 0, "part": part})
        if not piece.opens:
            yield frame({**_delta(piece), **at, "delta": piece.text}, piece)
    for place, item in enumerate(items):
        yield from map(frame, _closing(item, place))
    if not script.nofinish:
        final = whole(answer, ask, script) | {"id": response["id"]}
        name = f"response.{final['status']}"
        yield frame({"type": name, "response": final}, is_end=True, has_usage=not script.nousage)


def whole(answer: Answer, ask: Ask, script: Script) -> JSON:
    """Write the answer as one response."""
    is_cut = answer.finish == "length"
    response = {
        **_response(ask),
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": _items(answer),
    }
    return response if script.nousage else {**response, "usage": usage(answer, script)}


def usage(answer: Answer, script: Script) -> JSON:
    output = answer.output_tokens if script.usage is None else script.usage
    return {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + output if isinstance(output, int) else output,
    }


def error(failure: Failure) -> JSON:
    return {"error": {"message": failure.message, "type": failure.type, "param": None, "code": failure.code}}


def error_frame(failure: Failure) -> bytes:
    code = failure.code or failure.type
    return event_frame({"type": "error", "code": str(code), "message": failure.message, "param": None})


def _response(ask: Ask) -> JSON:
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "model": ask.model,
        "error": None,
        "incomplete_details": None,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }


def _items(answer: Answer) -> list[JSON]:
    """Write the answer's output items, whole and in the order in which they stream."""
    items: list[JSON] = []
    if reasoning := answer.joined("reasoning"):
        summary = [{"type": "summary_text", "text": reasoning}]
        items.append({"id": f"rs_{secrets.token_hex(8)}", "type": "reasoning", "summary": summary})
    if text := answer.joined("text"):
        items.append(
            {
                "id": f"msg_{secrets.token_hex(8)}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [_part(text)],
            }
        )
    for call in answer.calls:
        item = {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id, "name": call.name}
        items.append({**item, "arguments": call.arguments, "status": "completed"})
    return items


def _place(items: list[JSON], answer: Answer, piece: Piece) -> int:
    if piece.kind == "call":
        return len(items) - len(answer.calls) + piece.call
    kind = "reasoning" if piece.kind == "reasoning" else "message"
    return next(place for place, item in enumerate(items) if item["type"] == kind)


def _empty(item: JSON) -> JSON:
    empties: dict[str, JSON] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
    }
    return {**item, **empties[item["type"]], **({"status": "in_progress"} if "status" in item else {})}


def _part(text: str) -> JSON:
    return {"type": "output_text", "text": text, "annotations": []}


def _delta(piece: Piece) -> JSON:
    match piece.kind:
        case "reasoning":
            return {"type": "response.reasoning_summary_text.delta", "summary_index": 0}
        case "call":
            return {"type": "response.function_call_arguments.delta"}
        case _:
            return {"type": "response.output_text.delta", "content_index": 0}


def _closing(item: JSON, place: int) -> Iterator[JSON]:
    at = {"output_index": place, "item_id": item["id"]}
    match item["type"]:
        case "message":
            part = item["content"][0]
            yield {"type": "response.output_text.done", **at, "content_index": 0, "text": part["text"]}
            yield {"type": "response.content_part.done", **at, "content_index": 0, "part": part}
        case "function_call":
            yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
        case _:
            part = item["summary"][0]
            yield {"type": "response.reasoning_summary_text.done", **at, "summary_index": 0, "text": part["text"]}
            yield {"type": "response.reasoning_summary_part.done", **at, "summary_index": 0, "part": part}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


DIALECT = Dialect(
    name="openai_responses", read=read_responses, frames=frames, whole=whole, error=error, error_frame=error_frame
)
