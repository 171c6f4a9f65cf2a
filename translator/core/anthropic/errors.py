"""Errors in the Messages API's words.

Source: https://platform.claude.com/docs/en/api/errors (read 2026-11-30).
"""

from typing import Any

from translator.core.errors import ClientError

__all__ = ["render_error"]


def render_error(error: ClientError, request_id: str) -> dict[str, Any]:
    """Return the body of an error answer, which is also the data of an `error` event."""
    body: dict[str, Any] = {"type": error.type, "message": error.message}
    if error.details is not None:
        body["details"] = error.details
    return {"type": "error", "error": body, "request_id": request_id}
