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
from django.http import HttpResponseBase, StreamingHttpResponse
from django.urls import Resolver404, get_resolver

from bridgeproject import services
from translator import api
from translator.core.errors import ClientError, ErrorType
from translator.relay import Gateway

logger = logging.getLogger(__name__)

API_PREFIX = "/v1/"
PUBLIC_PATHS = {"/livez", "/readyz", "/metrics"}
#: How long a client may take to send its body, in seconds.
BODY_S = 60

TOO_LARGE = ClientError(status=413, type=ErrorType.TOO_LARGE, message="Request exceeds the maximum size")
TOO_SLOW = ClientError(status=408, type=ErrorType.TIMEOUT, message="the body did not arrive in time")
CRASHED = ClientError(status=500, type=ErrorType.API, message="Internal server error")


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
    scope["request_id"] = request_id = api.new_request_id()
    try:
        response = await _respond(scope, receive)
    except Disconnected:
        return
    watching = asyncio.create_task(_cancel_when_gone(receive, answering))
    try:
        if not isinstance(response, HttpResponseBase):
            response = await response
        await _send(response, request_id, send)
    except asyncio.CancelledError:
        if not watching.done():
            raise
    finally:
        watching.cancel()


async def _respond(scope: dict[str, Any], receive: Any) -> Any:
    """Check the request and read its body; return a response, or the view's coroutine that will give one."""
    request = ASGIRequest(scope, BytesIO())
    try:
        gateway = await services.gateway()
        request.gateway = gateway  # type: ignore[attr-defined]
        match = get_resolver().resolve(scope["path"])
        if scope["path"].startswith(API_PREFIX):
            request.token = api.authenticate(request, gateway)  # type: ignore[attr-defined]
        request._body = await _read_body(scope, receive)  # type: ignore[attr-defined]  # noqa: SLF001
    except Resolver404:
        return api.error_response(request, api.not_found(scope["path"]))
    except api.Unauthorized as exc:
        return api.error_response(request, exc.error)
    except Refused as exc:
        return api.error_response(request, exc.error)
    return _call(request, match)


async def _call(request: ASGIRequest, match: Any) -> HttpResponseBase:
    try:
        response: HttpResponseBase = await match.func(request, *match.args, **match.kwargs)
    except Exception:
        logger.exception("request %s failed", request.scope["request_id"])
        return api.error_response(request, CRASHED)
    if response.status_code == 405:
        return api.error_response(request, api.wrong_method(request.method or ""))
    return response


async def _read_body(scope: dict[str, Any], receive: Any) -> bytes:
    """Read the body, at most `settings.MAX_BODY_BYTES` of it."""
    limit = settings.MAX_BODY_BYTES
    declared = dict(scope["headers"]).get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limit:
        raise Refused(TOO_LARGE)
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
                    raise Refused(TOO_LARGE)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise Refused(TOO_SLOW) from None


async def _cancel_when_gone(receive: Any, answering: asyncio.Task[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    answering.cancel()


async def _send(response: HttpResponseBase, request_id: str, send: Any) -> None:
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers.append((b"request-id", request_id.encode("ascii")))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    if isinstance(response, StreamingHttpResponse):
        async with aclosing(aiter(response.streaming_content)) as parts:  # type: ignore[arg-type,type-var]
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": response.content})  # type: ignore[attr-defined]
