"""OpenAI's chat/completions, written as the upstreams in use write it.

Source: https://platform.openai.com/docs/api-reference/chat (read 2026-11).
"""

import secrets
import time
from collections.abc import Iterator

from demo.answer import Answer, Piece
from demo.ask import Ask, read_chat
from demo.frames import JSON, Dialect, Failure, Frame, data_frame
from demo.script import Script
from demo.told import as_told


def read(body: JSON) -> Ask:
    """Read a body, with tools in its keys or told in words."""
    return as_told(read_chat(body))


def frames(answer: Answer, ask: Ask, script: Script) -> Iterator[Frame]:
    """Write the answer as chunks; the first gives the role alone, as OpenAI's does."""
    head = _head("chat.completion.chunk", ask)
    yield Frame(data=_chunk(head, {"role": "assistant", "content": ""}))
    for piece in answer.pieces:
        delta = _delta(answer, piece, script)
        yield Frame(data=_chunk(head, delta), tokens=piece.tokens, is_output=True)
    if not script.nofinish:
        yield Frame(data=_chunk(head, {}, answer.finish, stop_reason=answer.stopped_by), is_end=True)
    if ask.wants_usage and not script.nousage:
        yield Frame(
            data=data_frame({**head, "choices": [], "usage": usage(answer, script)}), has_usage=True, is_end=True
        )
    if not script.nodone:
        yield Frame(data=b"data: [DONE]\n\n", is_end=True)


def whole(answer: Answer, ask: Ask, script: Script) -> JSON:
    """Write the answer as one object."""
    message: JSON = {"role": "assistant", "content": answer.joined("text") or None}
    if reasoning := answer.joined("reasoning"):
        message[script.think or "reasoning_content"] = reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice: JSON = {"index": 0, "message": message, "finish_reason": None if script.nofinish else answer.finish}
    if answer.stopped_by:
        choice["stop_reason"] = answer.stopped_by
    body = {**_head("chat.completion", ask), "choices": [choice]}
    return body if script.nousage else {**body, "usage": usage(answer, script)}


def usage(answer: Answer, script: Script) -> JSON:
    """Count as OpenAI does: cached tokens are part of the prompt's, reasoning is part of the completion's."""
    output = answer.output_tokens if script.usage is None else script.usage
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": output,
        "total_tokens": answer.input_tokens + output if isinstance(output, int) else output,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }


def error(failure: Failure) -> JSON:
    return {"error": {"message": failure.message, "type": failure.type, "param": None, "code": failure.code}}


def error_frame(failure: Failure) -> bytes:
    return data_frame(error(failure))


def _head(kind: str, ask: Ask) -> JSON:
    return {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": kind, "created": int(time.time()), "model": ask.model}


def _chunk(head: JSON, delta: JSON, finish: str | None = None, *, stop_reason: str | None = None) -> bytes:
    choice: JSON = {"index": 0, "delta": delta, "finish_reason": finish}
    if stop_reason:
        choice["stop_reason"] = stop_reason
    return data_frame({**head, "choices": [choice]})


def _delta(answer: Answer, piece: Piece, script: Script) -> JSON:
    match piece.kind:
        case "reasoning":
            return {script.think or "reasoning_content": piece.text}
        case "call":
            return {"tool_calls": [_call_delta(answer, piece)]}
        case _:
            return {"content": piece.text}


def _call_delta(answer: Answer, piece: Piece) -> JSON:
    if not piece.opens:
        return {"index": piece.call, "function": {"arguments": piece.text}}
    call = answer.calls[piece.call]
    opening = {"name": call.name, "arguments": ""}
    return {"index": piece.call, "id": call.id, "type": "function", "function": opening}


DIALECT = Dialect(name="openai_chat", read=read, frames=frames, whole=whole, error=error, error_frame=error_frame)
