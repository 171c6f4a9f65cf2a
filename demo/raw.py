"""Replay a recorded answer byte for byte: what `{"raw": {...}}` of `POST /script` asks for.

    {"status": 200, "headers": {}, "json": ... | "text": "..." | "sse": ["data: ...\\n\\n", {...}],
     "sse_end": "eof|cut|reset|hang", "sse_encoding": "utf-8", "delays_ms": {"2": 500}, "gzip": false,
     "fault": "no_response"}

An item of `sse` is text that goes out as it stands, or an object that becomes a `data:` frame.
"""

import gzip
import math
from typing import Any

import orjson

from demo.frames import data_frame
from demo.http1 import Wire
from demo.play import READING_S, STREAM


async def replay(wire: Wire, raw: dict[str, Any]) -> str:
    """Send the recorded answer, and return why it ended.

    Raises:
        ClientGone: The client left first.
    """
    if raw.get("fault") == "no_response":
        wire.reset()
        return "no_response"
    status = int(raw.get("status", 200))
    headers = {str(name).lower(): str(value) for name, value in (raw.get("headers") or {}).items()}
    if "sse" in raw:
        return await _replay_stream(wire, raw, status, dict(STREAM) | headers)
    kind = "application/json" if "json" in raw else "text/plain"
    body = orjson.dumps(raw["json"]) if "json" in raw else str(raw.get("text", "")).encode()
    if raw.get("gzip"):
        body, headers = gzip.compress(body), headers | {"content-encoding": "gzip"}
    await wire.pause(_delay(raw, 0))
    await wire.send_whole(status, body, list(({"content-type": kind} | headers).items()))
    return "done" if status < 400 else "refused"


async def _replay_stream(wire: Wire, raw: dict[str, Any], status: int, headers: dict[str, str]) -> str:
    encoding = str(raw.get("sse_encoding", "utf-8"))
    items = [item.encode(encoding) if isinstance(item, str) else data_frame(item) for item in raw["sse"]]
    if raw.get("gzip"):
        items, headers = [gzip.compress(b"".join(items))], headers | {"content-encoding": "gzip"}
    await wire.send_head(status, [*headers.items(), ("transfer-encoding", "chunked")])
    for number, item in enumerate(items):
        await wire.pause(_delay(raw, number))
        await wire.send_chunk(item)
    end = str(raw.get("sse_end", "eof"))
    match end:
        case "hang":
            await wire.pause(math.inf)
        case "reset":
            await wire.pause(READING_S)
            wire.reset()
        case "cut":
            wire.close()
        case _:
            await wire.end_chunks()
    return "done" if end == "eof" else end


def _delay(raw: dict[str, Any], number: int) -> float:
    return float((raw.get("delays_ms") or {}).get(str(number), 0)) / 1000
