"""Anthropic's Messages API.

Source: https://docs.anthropic.com/en/api/messages-streaming (read 2026-11).
"""

import secrets
from collections.abc import Iterator
from itertools import groupby

import orjson

from demo.answer import Answer, Piece
from demo.ask import Ask, read_messages
from demo.frames import JSON, Dialect, Failure, Frame, event_frame
from demo.script import Script

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def frames(answer: Answer, ask: Ask, script: Script) -> Iterator[Frame]:
    """Write the answer as events: a block for each run of pieces of a kind, one open at a time."""
    start = {**_message(ask), "content": [], "stop_reason": None, "usage": {**_input(answer), "output_tokens": 1}}
    yield Frame(data=event_frame({"type": "message_start", "message": start}))
    yield Frame(data=event_frame({"type": "ping"}))
    for index, (_, pieces) in enumerate(_blocks(answer)):
        yield from _block_frames(answer, index, pieces)
    if not script.nofinish:
        delta: JSON = {"stop_reason": _stop_reason(answer), "stop_sequence": answer.stopped_by}
        end: JSON = {"type": "message_delta", "delta": delta}
        if not script.nousage:
            end["usage"] = usage(answer, script)
        yield Frame(data=event_frame(end), has_usage=not script.nousage, is_end=True)
    if not script.nodone:
        yield Frame(data=event_frame({"type": "message_stop"}), is_end=True)


def whole(answer: Answer, ask: Ask, script: Script) -> JSON:
    """Write the answer as one message."""
    content = [_block(answer, kind, pieces) for (kind, _), pieces in _blocks(answer)]
    message = {
        **_message(ask),
        "content": content,
        "stop_reason": None if script.nofinish else _stop_reason(answer),
        "stop_sequence": answer.stopped_by,
    }
    return message if script.nousage else {**message, "usage": usage(answer, script)}


def usage(answer: Answer, script: Script) -> JSON:
    """Count as Anthropic does: cached tokens stand beside the input's, not among them."""
    return {
        **_input(answer),
        "output_tokens": answer.output_tokens if script.usage is None else script.usage,
        "output_tokens_details": {"thinking_tokens": answer.reasoning_tokens},
    }


def error(failure: Failure) -> JSON:
    kind = ERROR_TYPES.get(failure.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": failure.message}}


def error_frame(failure: Failure) -> bytes:
    return event_frame(error(failure))


def _message(ask: Ask) -> JSON:
    return {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant", "model": ask.model}


def _input(answer: Answer) -> JSON:
    return {
        "input_tokens": answer.input_tokens - answer.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": answer.cached_tokens,
    }


def _stop_reason(answer: Answer) -> str:
    return "stop_sequence" if answer.stopped_by else STOP_REASONS.get(answer.finish, answer.finish)


def _blocks(answer: Answer) -> Iterator[tuple[tuple[str, int], list[Piece]]]:
    """Group the pieces; calls that come in turns are put one after the other, since blocks can't be."""
    runs = [(key, list(run)) for key, run in groupby(answer.pieces, key=lambda piece: (piece.kind, piece.call))]
    calls: dict[tuple[str, int], list[Piece]] = {}
    for key, run in runs:
        if key[0] == "call":
            calls.setdefault(key, []).extend(run)
    yield from ((key, run) for key, run in runs if key[0] != "call")
    yield from calls.items()


def _block_frames(answer: Answer, index: int, pieces: list[Piece]) -> Iterator[Frame]:
    first = pieces[0]
    start = event_frame({"type": "content_block_start", "index": index, "content_block": _opened(answer, first)})
    yield Frame(data=start, tokens=first.tokens if first.opens else 0, is_output=first.opens)
    for piece in pieces:
        if not piece.opens:
            data = event_frame({"type": "content_block_delta", "index": index, "delta": _delta(piece)})
            yield Frame(data=data, tokens=piece.tokens, is_output=True)
    if first.kind == "reasoning":
        signature = {"type": "signature_delta", "signature": "demo"}
        yield Frame(data=event_frame({"type": "content_block_delta", "index": index, "delta": signature}))
    yield Frame(data=event_frame({"type": "content_block_stop", "index": index}))


def _opened(answer: Answer, piece: Piece) -> JSON:
    match piece.kind:
        case "reasoning":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "call":
            call = answer.calls[piece.call]
            return {"type": "tool_use", "id": call.id.replace("call_", "toolu_"), "name": call.name, "input": {}}
        case _:
            return {"type": "text", "text": ""}


def _delta(piece: Piece) -> JSON:
    match piece.kind:
        case "reasoning":
            return {"type": "thinking_delta", "thinking": piece.text}
        case "call":
            return {"type": "input_json_delta", "partial_json": piece.text}
        case _:
            return {"type": "text_delta", "text": piece.text}


def _block(answer: Answer, kind: str, pieces: list[Piece]) -> JSON:
    block = _opened(answer, pieces[0])
    text = "".join(piece.text for piece in pieces)
    match kind:
        case "reasoning":
            return {**block, "thinking": text, "signature": "demo"}
        case "call":
            return {**block, "input": orjson.loads(text or "{}")}
        case _:
            return {**block, "text": text}


DIALECT = Dialect(
    name="anthropic", read=read_messages, frames=frames, whole=whole, error=error, error_frame=error_frame
)
