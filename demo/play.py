"""Send one answer as its script says: good, late, in crumbs, or broken somewhere."""

import contextlib
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import orjson

from demo.answer import Answer
from demo.ask import Ask
from demo.frames import Dialect, Failure, Frame
from demo.http1 import ClientGone, Wire
from demo.script import Fault, Script
from demo.truth import Attempt

STREAM = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]
CHUNKED = ("transfer-encoding", "chunked")
JSON_HEADERS = [("content-type", "application/json")]
PAGE = b"<!doctype html>\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n"
PING = b": keep-alive\n\n"
PING_GAP_S = 0.1
#: A reset overtakes bytes that wait in the client's buffer: so long it gets to read them.
READING_S = 0.05
MEGABYTE = 1024 * 1024
#: Words of an error when the script gives none: {status: (message, type)}.
ERRORS = {
    400: ("The request makes no sense.", "invalid_request_error"),
    401: ("Incorrect API key provided.", "authentication_error"),
    402: ("Insufficient balance.", "insufficient_quota"),
    403: ("This key may not use that model.", "permission_error"),
    404: ("The model does not exist.", "not_found_error"),
    413: ("The request is too large.", "invalid_request_error"),
    422: ("The request cannot be processed.", "invalid_request_error"),
    429: ("Rate limit reached.", "rate_limit_exceeded"),
    503: ("The engine is overloaded, try again later.", "overloaded"),
    529: ("Overloaded.", "overloaded_error"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that one answer needs."""

    wire: Wire
    dialect: Dialect
    ask: Ask
    answer: Answer
    script: Script
    attempt: Attempt


async def play(scene: Scene) -> str:
    """Answer one call, and return why it ended.

    Raises:
        ClientGone: The client left first.
    """
    script = scene.script
    await scene.wire.pause(script.wait)
    if script.is_before_head():
        return await _end(scene)
    if script.fault in (Fault.HTML, Fault.EMPTY, Fault.ERROR_200) or script.status != 200 or script.redirect:
        return await _refuse(scene)
    scene.attempt.status = 200
    scene.attempt.input_tokens = scene.answer.input_tokens
    scene.attempt.cached_tokens = scene.answer.cached_tokens
    if script.fault is Fault.GZIP_BOMB:
        return await _bomb(scene)
    if script.sse or (scene.ask.stream and not script.json):
        return await _stream(scene)
    return await _whole(scene)


async def _refuse(scene: Scene) -> str:
    script = scene.script
    status = 302 if script.redirect and script.status == 200 else script.status
    headers, body = JSON_HEADERS, orjson.dumps(scene.dialect.error(failure_of(script)))
    if script.fault is Fault.HTML:
        headers, body = [("content-type", "text/html")], PAGE
    elif script.fault is Fault.EMPTY:
        headers, body = (STREAM if scene.ask.stream else JSON_HEADERS), b""
    headers = [*headers, *([("retry-after", script.retry_after)] if script.retry_after else [])]
    headers = [*headers, *([("location", script.redirect)] if script.redirect else [])]
    scene.attempt.status = status
    await scene.wire.send_whole(status, body, headers)
    return script.fault.value if script.fault else "refused"


def failure_of(script: Script) -> Failure:
    """Give the error that a script means; its code stands for the status where the status says 200."""
    code = script.code
    status = script.status if script.status != 200 else int(code) if code and code.isdigit() else 500
    message, kind = ERRORS.get(status, ("The server had an error.", "server_error"))
    return Failure(
        status=status,
        message=script.message or message,
        type=script.error_type or kind,
        code=int(code) if code and code.isdigit() else code,
    )


async def _bomb(scene: Scene) -> str:
    wire = scene.wire
    squeeze = zlib.compressobj(9, wbits=31)
    await wire.send_head(200, [*STREAM, ("content-encoding", "gzip"), CHUNKED])
    await wire.send_chunk(squeeze.compress(b"data: "))
    for _ in range(scene.script.gzipbomb):
        await wire.send_chunk(squeeze.compress(b"0" * MEGABYTE))
    await wire.send_chunk(squeeze.flush())
    await wire.end_chunks()
    return Fault.GZIP_BOMB.value


async def _whole(scene: Scene) -> str:
    """Send one JSON object. A fault in the middle of a stream comes in the middle of the object here."""
    wire, script, attempt = scene.wire, scene.script, scene.attempt
    await wire.pause(len(scene.answer.pieces) * _gap(scene) * 0.2)
    body = orjson.dumps(scene.dialect.whole(scene.answer, scene.ask, script))
    half = len(body) // 2
    match script.fault:
        case Fault.ERROR_FRAME:
            body = orjson.dumps(scene.dialect.error(failure_of(script)))
        case Fault.MALFORMED:
            body = body[:half]
        case Fault.BAD_UTF8:
            body = body[:half] + b"\xff\xfe" + body[half:]
        case Fault.BIG_FRAME:
            body = b" " * script.bigframe + body
    attempt.output_tokens = scene.answer.output_tokens
    attempt.reasoning_tokens = scene.answer.reasoning_tokens
    await wire.send_head(200, [*JSON_HEADERS, ("content-length", str(len(body)))])
    if script.fault in (Fault.CUT, Fault.RESET, Fault.EOF, Fault.SILENT):
        await _send_bytes(scene, body[: half if script.byte is None else script.byte])
        return await _end(scene)
    await _send_bytes(scene, body)
    if script.fault is Fault.RESET_AT_CLOSE:
        return await _end(scene)
    attempt.finished = script.fault is None
    attempt.sent_tokens = attempt.output_tokens
    attempt.usage_sent = attempt.finished and not script.nousage
    return script.fault.value if script.fault else "done"


async def _send_bytes(scene: Scene, body: bytes) -> None:
    if not scene.script.bytes and scene.script.drip is None:
        await scene.wire.send(body)
        return
    for byte in body:
        await scene.wire.pause(scene.script.drip or 0)
        await scene.wire.send(bytes([byte]))


async def _stream(scene: Scene) -> str:
    wire, script, attempt = scene.wire, scene.script, scene.attempt
    await wire.send_head(200, [*STREAM, CHUNKED])
    if script.fault is Fault.PINGS:
        await _ping(scene)
    for frame in spoiled(scene.dialect.frames(scene.answer, scene.ask, script), scene):
        if frame.is_output:
            await wire.pause(_gap(scene))
        attempt.output_tokens += frame.tokens
        await _send_frame(scene, frame.data)
        attempt.sent_tokens += frame.tokens if frame.is_whole else 0
        attempt.usage_sent = attempt.usage_sent or (frame.has_usage and frame.is_whole)
    attempt.reasoning_tokens = min(scene.answer.reasoning_tokens, attempt.output_tokens)
    return await _end(scene)


def _gap(scene: Scene) -> float:
    return scene.answer.gap_s if scene.script.gap is None else scene.script.gap


async def _ping(scene: Scene) -> None:
    left = math.inf if scene.script.pings is None else scene.script.pings
    while left > 0:
        await scene.wire.pause(PING_GAP_S if scene.script.gap is None else scene.script.gap)
        await scene.wire.send_chunk(PING)
        left -= 1


async def _send_frame(scene: Scene, data: bytes) -> None:
    if scene.script.crlf:
        data = data.replace(b"\n", b"\r\n")
    if not scene.script.bytes and scene.script.drip is None:
        await scene.wire.send_chunk(data)
        return
    for byte in data:
        await scene.wire.pause(scene.script.drip or 0)
        await scene.wire.send_chunk(bytes([byte]))


def spoiled(frames: Iterator[Frame], scene: Scene) -> Iterator[Frame]:
    """Pass frames on up to where the script's fault is, and spoil or leave out what comes there."""
    script = scene.script
    is_due = script.frame is not None and script.fault is not None
    outputs = size = 0
    for frame in frames:
        if script.byte is not None and script.fault is not None and size + len(frame.data) > script.byte:
            yield replace(frame, data=frame.data[: script.byte - size], is_whole=False)
            return
        if is_due and ((frame.is_output and outputs == script.frame) or frame.is_end):
            is_due = False
            match script.fault:
                case Fault.MALFORMED:
                    yield replace(frame, data=frame.data[: len(frame.data) // 2] + b"\n\n", is_whole=False)
                    continue
                case Fault.BAD_UTF8:
                    yield replace(frame, data=frame.data.replace(b'"}', b'\xff\xfe"}', 1), is_whole=False)
                    continue
                case Fault.BIG_FRAME:
                    yield replace(frame, data=frame.data[:-3] + b',"padding":"%b"}\n\n' % (b"x" * script.bigframe))
                    continue
                case Fault.ERROR_FRAME:
                    yield Frame(data=scene.dialect.error_frame(failure_of(script)))
                    return
                case _:
                    return
        outputs += frame.is_output
        size += len(frame.data)
        yield frame


async def _end(scene: Scene) -> str:
    """End the answer's bytes as the fault asks, and return why it ended."""
    wire, fault = scene.wire, scene.script.fault
    match fault:
        case Fault.CUT:
            wire.close()
        case Fault.RESET | Fault.RESET_AT_CLOSE:
            await wire.pause(READING_S)
            wire.reset()
        case Fault.SILENT:
            return await _hold(wire)
        case Fault.EOF if not scene.ask.stream:
            wire.close()
        case _:
            await wire.end_chunks()
    if fault is not None and fault is not Fault.PINGS:
        return str(fault.value)
    if scene.script.nodone and scene.script.nofinish:
        return Fault.EOF.value
    scene.attempt.finished = True
    return "done"


async def _hold(wire: Wire) -> str:
    with contextlib.suppress(ClientGone):
        await wire.pause(math.inf)
    return Fault.SILENT.value
