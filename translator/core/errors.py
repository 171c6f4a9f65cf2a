"""What can go wrong in translation, and what the client is told about it.

* TranslationError
  x InvalidRequest          the client's request breaks the Messages schema; the client's fault
  x UnsupportedFeature      the request is legal, but no upstream can be asked for it; nobody's fault
  x UpstreamProtocolError   the upstream broke its own format; the upstream's fault
  x AnswerFailed            the answer ended in an error that is already in the client's words; the upstream's fault

A `ClientError` is the answer in words, the same for every dialect of the client.

Source of the types: https://platform.claude.com/docs/en/api/errors (read 2026-11-30).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

__all__ = [
    "NO_RETRY",
    "AnswerFailed",
    "ClientError",
    "ErrorType",
    "InvalidRequest",
    "TranslationError",
    "UnsupportedFeature",
    "UpstreamProtocolError",
    "to_client_error",
]

#: Tells the official SDKs and Claude Code that asking again is useless.
NO_RETRY: Mapping[str, str] = MappingProxyType({"x-should-retry": "false"})


class ErrorType(StrEnum):
    """The error types that the official SDKs know."""

    INVALID_REQUEST = "invalid_request_error"
    AUTHENTICATION = "authentication_error"
    BILLING = "billing_error"
    PERMISSION = "permission_error"
    NOT_FOUND = "not_found_error"
    CONFLICT = "conflict_error"
    TOO_LARGE = "request_too_large"
    RATE_LIMIT = "rate_limit_error"
    TIMEOUT = "timeout_error"
    API = "api_error"
    OVERLOADED = "overloaded_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """What the client is told: status, type, words and headers."""

    #: HTTP status, used only while the headers have not been sent.
    status: int
    type: ErrorType
    #: One plain sentence: no secret, no address, no markup.
    message: str
    #: Response headers that steer the client's retries, lower case.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: `error.details` of the Messages API (`error_code` picks a finer SDK class), or None.
    details: Mapping[str, Any] | None = None


class TranslationError(Exception):
    """The base of all errors of the core."""

    status_hint = 500
    type_hint = ErrorType.API

    def __init__(self, message: str) -> None:
        """Keep the sentence that the client may read."""
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] | None = None


class InvalidRequest(TranslationError):
    """The client's request breaks the Messages schema."""

    status_hint = 400
    type_hint = ErrorType.INVALID_REQUEST

    def __init__(self, path: str, reason: str, details: Mapping[str, Any] | None = None) -> None:
        """Say what is wrong, and where.

        Args:
            path: Dotted place in the body (`messages.0.content`); empty for the body as a whole.
            reason: What is wrong there, as a sentence without its subject.
            details: `error.details` of the answer, or None.
        """
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason
        self.details = details


class UnsupportedFeature(InvalidRequest):
    """The request is legal, but it asks for what the upstream cannot say."""


class UpstreamProtocolError(TranslationError):
    """The upstream broke its own format."""


class AnswerFailed(TranslationError):
    """The answer ended in an error."""

    def __init__(self, error: ClientError) -> None:
        """Keep what the client is told."""
        super().__init__(error.message)
        self.error = error


def to_client_error(error: TranslationError) -> ClientError:
    """Return what the client is told about `error`."""
    if isinstance(error, AnswerFailed):
        return error.error
    return ClientError(status=error.status_hint, type=error.type_hint, message=error.message, details=error.details)
