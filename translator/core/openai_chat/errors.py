"""Failures of a chat/completions upstream, to what the client is told.

The words matter as much as the status: Claude Code reads both. The upstream's own text is passed on, masked, since
clients know some of it; what concerns the gateway's own credential or settings is not the client's to see.

Sources: https://platform.claude.com/docs/en/api/errors, https://code.claude.com/docs/en/errors,
https://platform.openai.com/docs/guides/error-codes, https://openrouter.ai/docs/api-reference/errors (read 2026-11-30).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from translator.core.errors import NO_RETRY, ClientError, ErrorType
from translator.core.masking import mask
from translator.core.openai_chat.context_overflow import overflow_message
from translator.core.openai_chat.error_report import ErrorReport, read_body, report_of
from translator.core.retry_after import told_retry_after

__all__ = [
    "connection_error",
    "embedded_error",
    "protocol_error",
    "read_error",
    "render_error",
    "timeout_error",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of failure: it is this kind if a status, a word or a phrase fits."""

    #: Upstream's statuses, ends included; none fits any status.
    statuses: tuple[tuple[int, int], ...] = ()
    #: `code` or `type` in the body, lower case.
    words: frozenset[str] = frozenset()
    #: Pieces of the text, or of a word, lower case.
    phrases: tuple[str, ...] = ()
    status: int
    type: ErrorType
    #: What the client is told; `{text}` is the upstream's, `{model}` the client's model, `{status}` the upstream's.
    message: str = "{text}"
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Whether the upstream's wish to wait is passed on.
    tells_wait: bool = False


#: The first row that fits counts.
ROWS = (
    Row(  # money: asking again never helps
        statuses=((402, 402),),
        words=frozenset({"insufficient_quota", "insufficient_balance", "credit_balance_exhausted", "billing_hard_limit_reached", "billing_not_active"}),
        phrases=("insufficient balance", "insufficient credits", "spend_limit_exceeded", "usage_limit_exceeded", "exceeded your current quota", "余额不足"),
        status=402, type=ErrorType.BILLING, message="{text}",
    ),
    Row(  # the model wrote a call that the upstream could not parse: another sample may do
        words=frozenset({"tool_use_failed"}),
        status=500, type=ErrorType.API,
    ),
    Row(  # moderation of the client's text
        words=frozenset({"content_policy_violation", "content_filter", "moderation"}),
        phrases=("flagged by", "moderation", "content policy", "content management policy", "data_inspection_failed"),
        status=400, type=ErrorType.INVALID_REQUEST,
    ),
    Row(  # the gateway's credential, not the client's
        statuses=((401, 401), (403, 403)),
        words=frozenset({"invalid_api_key", "authentication_error"}),
        status=500, type=ErrorType.API, message="upstream authentication failed", headers=NO_RETRY,
    ),
    Row(
        statuses=((429, 429),),
        words=frozenset({"rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests", "resource_exhausted", "ratelimiterror"}),
        status=429, type=ErrorType.RATE_LIMIT, tells_wait=True,
    ),
    Row(
        statuses=((498, 498), (503, 503), (529, 529)),
        words=frozenset({"overloaded", "overloaded_error", "insufficient_system_resource", "provider_overloaded", "service_unavailable", "unavailable", "engine_overloaded", "server_is_overloaded", "slow_down"}),
        status=529, type=ErrorType.OVERLOADED, message="Overloaded: {text}", tells_wait=True,
    ),
    Row(
        statuses=((404, 404),),
        words=frozenset({"model_not_found"}),
        status=404, type=ErrorType.NOT_FOUND, message="model: {model} ({text})",
    ),
    Row(
        statuses=((408, 408), (504, 504), (524, 524)),
        words=frozenset({"timeout", "timeout_error", "gateway_timeout"}),
        status=504, type=ErrorType.TIMEOUT, message="upstream timed out",
    ),
    Row(statuses=((409, 409),), status=409, type=ErrorType.CONFLICT),
    Row(statuses=((413, 413),), status=413, type=ErrorType.TOO_LARGE, message="Request exceeds the maximum size"),
    Row(  # how the gateway calls this upstream is wrong
        statuses=((405, 407), (415, 415)),
        status=500, type=ErrorType.API, message="upstream returned {status}: {text}", headers=NO_RETRY,
    ),
    Row(statuses=((300, 399),), status=502, type=ErrorType.API, message="upstream redirects", headers=NO_RETRY),
    Row(statuses=((499, 499),), status=500, type=ErrorType.API),
    Row(statuses=((400, 498),), status=400, type=ErrorType.INVALID_REQUEST),
    Row(status=500, type=ErrorType.API, tells_wait=True),
)  # fmt: skip

#: Status that stands for a word, where an error has none of its own (an error in a stream).
STATUS_OF_WORD: Mapping[str, int] = {
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "bad_request": 400,
    "invalid_argument": 400,
    "context_length_exceeded": 400,
    "permission_error": 403,
    "not_found_error": 404,
}


def read_error(
    status: int, headers: Mapping[str, str], body: bytes, *, requested_model: str, secrets: Iterable[str] = ()
) -> ClientError:
    """Return what the client is told about an upstream's error answer.

    Args:
        status: The upstream's HTTP status.
        headers: The upstream's headers, names in lower case.
        body: The upstream's body; only its beginning is read.
        requested_model: The model as the client named it.
        secrets: What must not reach the client, whatever the upstream says: its credential above all.
    """
    return _client_error(status, headers, read_body(body), requested_model, secrets)


def embedded_error(
    error: Any, *, requested_model: str, headers: Mapping[str, str] | None = None, secrets: Iterable[str] = ()
) -> ClientError:
    """Return what the client is told about an error that stands in an answer of status 200.

    Args:
        error: The error object, or what stands in its place.
        requested_model: The model as the client named it.
        headers: The upstream's headers, names in lower case.
        secrets: What must not reach the client.
    """
    report = report_of(error)
    status = report.status or next((STATUS_OF_WORD[word] for word in report.words if word in STATUS_OF_WORD), 500)
    return _client_error(status, headers or {}, report, requested_model, secrets)


def _client_error(
    status: int, headers: Mapping[str, str], report: ErrorReport, model: str, secrets: Iterable[str]
) -> ClientError:
    text = "" if report.is_html else mask(report.text, secrets)
    if status not in (401, 429) and (overflow := overflow_message(report)) is not None:
        message = mask(overflow, secrets)
        return ClientError(status=400, type=ErrorType.INVALID_REQUEST, message=message)
    row = _row(status, report)
    told = dict(row.headers) | (told_retry_after(headers, text, report.body) if row.tells_wait else {})
    return ClientError(status=row.status, type=row.type, message=_message(row, status, text, model), headers=told)


def _row(status: int, report: ErrorReport) -> Row:
    said = " ".join([report.text.lower(), *report.words])
    return next(
        row
        for row in ROWS
        if row.words & report.words
        or any(phrase in said for phrase in row.phrases)
        or any(first <= status <= last for first, last in row.statuses)
        or not (row.words or row.phrases or row.statuses)
    )


def _message(row: Row, status: int, text: str, model: str) -> str:
    if row.message == "{text}" or (row.type is ErrorType.OVERLOADED and text.lower().startswith("overloaded")):
        return text or f"upstream returned {status}"
    return row.message.format(text=text, model=model, status=status).removesuffix(" ()").removesuffix(": ")


def protocol_error(reason: str) -> ClientError:
    """Return what the client is told when the upstream broke its own format."""
    return ClientError(status=500, type=ErrorType.API, message=reason)


#: What the client is told when no connection came about, or it broke, by kind.
CONNECTION_MESSAGES: Mapping[str, str] = {
    "connect": "cannot reach upstream",
    "dns": "cannot reach upstream",
    "tls": "cannot reach upstream",
    "refused_address": "upstream address is not allowed",
    "reset": "upstream closed the connection",
    "unreadable": "upstream sent an answer in an encoding that can't be read",
}


def connection_error(kind: str) -> ClientError:
    """Return what the client is told about a failed connection.

    Args:
        kind: A key of `CONNECTION_MESSAGES`; any other is told as an unreachable upstream.
    """
    return ClientError(
        status=502 if kind == "unreadable" else 500,
        type=ErrorType.API,
        message=CONNECTION_MESSAGES.get(kind, CONNECTION_MESSAGES["connect"]),
    )


def timeout_error(after_s: float) -> ClientError:
    """Return what the client is told when the upstream was silent for so long."""
    return ClientError(status=504, type=ErrorType.TIMEOUT, message=f"upstream timed out after {after_s:g}s")


#: OpenAI's types for the statuses its SDKs tell apart.
OPENAI_TYPES: Mapping[ErrorType, str] = {
    ErrorType.BILLING: "insufficient_quota",
    ErrorType.RATE_LIMIT: "rate_limit_exceeded",
    ErrorType.API: "server_error",
    ErrorType.OVERLOADED: "server_error",
    ErrorType.TIMEOUT: "server_error",
}


def render_error(error: ClientError) -> dict[str, Any]:
    """Return the body of an error answer for a client of the chat/completions API."""
    type_ = OPENAI_TYPES.get(error.type, "invalid_request_error")
    return {"error": {"message": error.message, "type": type_, "param": None, "code": error.type}}
