"""Request bodies, counted and timed below Django, which would write any of them to a file before it asks who sends it."""

import asyncio
from contextlib import suppress
from enum import Enum
from typing import Any

from translator import refusals
from translator.core.errors import ClientError

#: How long a client may take to send its body, in seconds.
BODY_S = 60


class Disconnected(Exception):
    """The client left."""


class BodyRefused(Exception):
    """The body is too large or too slow."""

    def __init__(self, error: ClientError) -> None:
        super().__init__(error.message)
        self.error = error


class Patience(Enum):
    """How much of a refused body is still read: bytes and seconds. A client that is cut off while it sends
    sees a broken connection and not the error."""

    STRANGER = (4 * 1024 * 1024, 1.0)
    MEMBER = (256 * 1024 * 1024, 10.0)


async def read_body(scope: dict[str, Any], receive: Any, *, limit: int) -> bytes:
    """Read the body, at most `limit` bytes of it.

    Raises:
        BodyRefused: It is larger, or takes too long.
        Disconnected: The client left meanwhile.
    """
    declared = dict(scope["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limit:
        raise BodyRefused(refusals.TOO_LARGE)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limit:
                    raise BodyRefused(refusals.TOO_LARGE)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise BodyRefused(refusals.TOO_SLOW) from None


async def answer_early(start: dict[str, Any], content: bytes, receive: Any, send: Any, patience: Patience) -> None:
    """Answer at once, let the client finish sending, and close the connection: there may be more to come."""
    start["headers"].append((b"connection", b"close"))
    await send(start)
    await send({"type": "http.response.body", "body": content, "more_body": True})
    limit, within_s = patience.value
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while limit > 0 and (message := await receive()).get("more_body"):
                limit -= len(message["body"])
    await send({"type": "http.response.body", "body": b""})
