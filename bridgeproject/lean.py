"""The short way from an ASGI server to an API view: capped, authenticated, then one call.

Nothing here hops to a thread. The caller is known from the headers before a byte of the body is read; the
body is counted while it comes. Django's request class, URL resolver and response classes are used as they
are; its middleware, signals and HTML error pages are not.
"""

import asyncio
import logging
from contextlib import aclosing
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, get_resolver

from bridgeproject import services
from translator import api, refusals
from translator.calls import new_id
from translator.core.errors import ClientError

logger = logging.getLogger(__name__)

API_PREFIX = "/v1/"
PUBLIC_PATHS = {"/livez", "/readyz", "/metrics"}
#: How long a client may take to send its body, in seconds.
BODY_S = 60
#: How long a client may take to read on, in seconds.
STALLED_S = 60


class Disconnected(Exception):
    """The client left."""


class Refused(Exception):
    """The request ends here."""

    def __init__(self, error: ClientError) -> None:
        super().__init__(error.message)
        self.error = error


def is_lean(path: str, method: str) -> bool:
    """Tell whether a request belongs to the API; `HEAD /` is a client looking whether we are there."""
    return path.startswith(API_PREFIX) or path in PUBLIC_PATHS or (path == "/" and method == "HEAD")


async def handle(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve one request of the API."""
    answering = asyncio.current_task()
    assert answering is not None  # noqa: S101  (a server runs us in a task)
    request_id = new_id("req")
    try:
        response = await _respond(scope, receive, request_id)
    except Disconnected:
        return
    watching = asyncio.create_task(_cancel_when_gone(receive, answering))
    try:
        await _send(response if isinstance(response, HttpResponseBase) else await response, request_id, send)
    except asyncio.CancelledError:
        if not watching.done():
            raise
    finally:
        watching.cancel()


async def _respond(scope: dict[str, Any], receive: Any, request_id: str) -> Any:
    """Check the request and read its body; return a response, or the view's coroutine that will give one."""
    path = scope["path"]
    if path == "/":
        return HttpResponse()
    try:
        gateway = await services.gateway()
        match = get_resolver().resolve(path)
        request: Any = ASGIRequest(scope, BytesIO())
        request.gateway, request.request_id = gateway, request_id
        if path.startswith(API_PREFIX):
            request.token = api.authenticate(request, gateway)
        if request.META.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
            raise Refused(refusals.ENCODED_BODY)
        request._body = await _read_body(scope, receive)
    except Resolver404:
        return api.error_response(path, refusals.not_found(path), request_id)
    except (api.Unauthorized, Refused) as exc:
        return api.error_response(path, exc.error, request_id)
    return _call(request, match)


async def _call(request: Any, match: Any) -> HttpResponseBase:
    try:
        response: HttpResponseBase = await match.func(request, *match.args, **match.kwargs)
    except Exception:
        logger.exception("request %s failed", request.request_id)
        return api.error_response(request.path, refusals.CRASHED, request.request_id)
    if response.status_code == 405:
        return api.error_response(request.path, refusals.wrong_method(request.method), request.request_id)
    return response


async def _read_body(scope: dict[str, Any], receive: Any) -> bytes:
    """Read the body, at most `settings.MAX_BODY_BYTES` of it."""
    limit = settings.MAX_BODY_BYTES
    declared = dict(scope["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limit:
        raise Refused(refusals.TOO_LARGE)
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
                    raise Refused(refusals.TOO_LARGE)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise Refused(refusals.TOO_SLOW) from None


async def _cancel_when_gone(receive: Any, answering: asyncio.Task[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    answering.cancel()


async def _send(response: HttpResponseBase, request_id: str, send: Any) -> None:
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers.append((b"request-id", request_id.encode("ascii")))
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    if not isinstance(response, api.EventStream):
        await send(start)
        await send({"type": "http.response.body", "body": response.content})  # type: ignore[attr-defined]
        return
    async with aclosing(response.pieces) as pieces:
        await _push(send, start)
        async for piece in pieces:
            await _push(send, {"type": "http.response.body", "body": piece, "more_body": True})
        await _push(send, {"type": "http.response.body", "body": b""})


async def _push(send: Any, message: dict[str, Any]) -> None:
    """Send, but not to a client that has stopped reading."""
    async with asyncio.timeout(STALLED_S):
        await send(message)
