"""The way from an ASGI server to Django's pages: their bodies are counted before Django sees them."""

from typing import Any

from django.conf import settings

from bridgeproject.bodies import BodyRefused, Disconnected, Patience, answer_early, read_body
from translator.core.errors import ClientError


async def handle(django: Any, scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve one request of a page by Django's own handler."""
    try:
        body = await read_body(scope, receive, limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    except Disconnected:
        return
    except BodyRefused as exc:
        content = exc.error.message.encode()
        await answer_early(_start(exc.error, content), content, receive, send, Patience.STRANGER)
        return
    await django(scope, _again(body, receive), send)


def _again(body: bytes, receive: Any) -> Any:
    """Give the body as if it came now, then whatever comes."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return waiting.pop() if waiting else await receive()

    return next_message


def _start(error: ClientError, content: bytes) -> dict[str, Any]:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(content))]
    return {"type": "http.response.start", "status": error.status, "headers": headers}
