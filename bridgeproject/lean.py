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
from bridgeproject.bodies import BodyRefused, Disconnected, Patience, answer_early, read_body
from bridgeproject.connection import ABORT
from translator import api, refusals
from translator.calls import new_id
from translator.core.errors import ClientError

logger = logging.getLogger(__name__)

API_PREFIX = "/v1/"
PUBLIC_PATHS = {"/livez", "/readyz", "/metrics"}
#: The largest body of a call that needs no token, in bytes: none of them reads it.
PUBLIC_BODY_BYTES = 64 * 1024
#: How long a client may take to read on, in seconds.
STALLED_S = 60
#: How soon the server knows that a connection was cut, in seconds.
HUNG_UP_S = 5


class Refused(Exception):
    """The request ends here."""

    def __init__(self, error: ClientError, patience: Patience = Patience.MEMBER) -> None:
        super().__init__(error.message)
        self.error = error
        self.patience = patience


def is_lean(path: str, method: str) -> bool:
    """Tell whether a request belongs to the API; `HEAD /` is a client looking whether we are there."""
    return path.startswith(API_PREFIX) or path in PUBLIC_PATHS or (path == "/" and method == "HEAD")


async def handle(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve one request of the API."""
    request_id = new_id("req")
    try:
        request = await _read(scope, receive, request_id)
    except Disconnected:
        return
    except Refused as exc:
        response = api.error_response(scope["path"], exc.error, request_id)
        await answer_early(_start(response, request_id), response.content, receive, send, exc.patience)
        return
    if request is None:
        await _send(HttpResponse(), request_id, scope, send)
        return
    answering = asyncio.current_task()
    assert answering is not None  # noqa: S101  (a server runs us in a task)
    watching = asyncio.create_task(_cancel_when_gone(receive, answering))
    try:
        await _send(await _call(request), request_id, scope, send)
    except asyncio.CancelledError:
        if not watching.done():
            raise
    finally:
        watching.cancel()


async def _read(scope: dict[str, Any], receive: Any, request_id: str) -> Any:
    """Return the request with its caller and body; None for a look whether we are there.

    Raises:
        Refused: It ends here, with this error.
        Disconnected: The client left meanwhile.
    """
    path = scope["path"]
    if path == "/":
        return None
    gateway = await services.gateway()
    request: Any = ASGIRequest(scope, BytesIO())
    request.gateway, request.request_id = gateway, request_id
    try:
        if path.startswith(API_PREFIX):
            request.token = api.authenticate(request, gateway)
        request.resolver_match = get_resolver().resolve(path)
    except api.Unauthorized as exc:
        for token_id in exc.token_ids:
            api.note_refusal(request, exc.noted, token_id)
        raise Refused(exc.error, patience=Patience.STRANGER) from exc
    except Resolver404 as exc:
        raise _noted(request, refusals.not_found(path)) from exc
    if request.headers.get("content-encoding", "identity") != "identity":
        raise _noted(request, refusals.ENCODED_BODY)
    try:
        limit = PUBLIC_BODY_BYTES if path in PUBLIC_PATHS else settings.MAX_BODY_BYTES
        request._body = await read_body(scope, receive, limit=limit)
    except BodyRefused as exc:
        raise _noted(request, exc.error) from exc
    request.arrived_at = asyncio.get_running_loop().time()
    return request


def _noted(request: Any, error: ClientError) -> Refused:
    """Refuse, and keep it for the token's member where there is one."""
    if not hasattr(request, "token"):
        return Refused(error, Patience.STRANGER)
    api.note_refusal(request, error)
    return Refused(error)


async def _call(request: Any) -> HttpResponseBase:
    match = request.resolver_match
    try:
        response: HttpResponseBase = await match.func(request, *match.args, **match.kwargs)
    except Exception:
        logger.exception("request %s failed", request.request_id)
        return api.error_response(request.path, _noted(request, refusals.CRASHED).error, request.request_id)
    if response.status_code == 405:
        error = _noted(request, refusals.wrong_method(request.method)).error
        return api.error_response(request.path, error, request.request_id)
    return response


async def _cancel_when_gone(receive: Any, answering: asyncio.Task[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    answering.cancel()


async def _send(response: HttpResponseBase, request_id: str, scope: dict[str, Any], send: Any) -> None:
    start = _start(response, request_id)
    if not isinstance(response, api.EventStream):
        await send(start)
        await send({"type": "http.response.body", "body": response.content})  # type: ignore[attr-defined]
        return
    async with aclosing(response.pieces) as pieces:
        await push(scope, send, start)
        async for piece in pieces:
            await push(scope, send, {"type": "http.response.body", "body": piece, "more_body": True})
        await push(scope, send, {"type": "http.response.body", "body": b""})


def _start(response: HttpResponseBase, request_id: str) -> dict[str, Any]:
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers.append((b"request-id", request_id.encode("ascii")))
    if isinstance(response, HttpResponse):
        headers.append((b"content-length", b"%d" % len(response.content)))
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


async def push(scope: dict[str, Any], send: Any, message: dict[str, Any]) -> None:
    """Send, but cut the connection of a client that has stopped reading: closing it would wait for that client."""
    try:
        async with asyncio.timeout(STALLED_S):
            await send(message)
    except TimeoutError:
        if (abort := scope.get("extensions", {}).get(ABORT)) is None:
            raise
        abort["now"]()
        await asyncio.sleep(HUNG_UP_S)  # the server says that the client is gone, and who watches for that cancels us
        raise
