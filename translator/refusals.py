"""What a client is told when we ourselves say no."""

from math import ceil

from keys.dispatch import Refusal

from translator.core.errors import NO_RETRY, ClientError, ErrorType
from usage.ledger import OverBudget, RateLimited

NO_TOKEN = ClientError(
    status=401, type=ErrorType.AUTHENTICATION, message="invalid x-api-key", headers=NO_RETRY
)  # Claude Code would try for three minutes without that header
TWO_TOKENS = ClientError(
    status=400, type=ErrorType.INVALID_REQUEST, message="x-api-key and Authorization hold two different tokens of ours"
)
SHUT_DOWN = ClientError(
    status=503, type=ErrorType.OVERLOADED, message="the gateway is shutting down", headers={"retry-after": "2"}
)
NO_LEDGER = ClientError(
    status=503,
    type=ErrorType.API,
    message="usage can't be recorded now, so nothing was sent",
    headers={"retry-after": "2"},
)
TOO_LARGE = ClientError(status=413, type=ErrorType.TOO_LARGE, message="Request exceeds the maximum size")
TOO_SLOW = ClientError(status=408, type=ErrorType.TIMEOUT, message="the body did not arrive in time")
CRASHED = ClientError(status=500, type=ErrorType.API, message="Internal server error")
ENCODED_BODY = ClientError(
    status=400, type=ErrorType.INVALID_REQUEST, message="compressed request bodies are not supported"
)


def unknown_model(alias: str) -> ClientError:
    return ClientError(status=404, type=ErrorType.NOT_FOUND, message=f"model: {alias[:200]}")


def forbidden_model(alias: str) -> ClientError:
    return ClientError(
        status=403,
        type=ErrorType.PERMISSION,
        message=f"this token may not use the model {alias[:200]}",
        headers=NO_RETRY,
    )


def not_found(path: str) -> ClientError:
    return ClientError(status=404, type=ErrorType.NOT_FOUND, message=f"there is nothing at {path[:200]}")


def wrong_method(method: str) -> ClientError:
    return ClientError(status=405, type=ErrorType.INVALID_REQUEST, message=f"{method[:20]} is not allowed here")


def over_budget(spent: OverBudget) -> ClientError:
    until = f"; it starts anew at {spent.resets_at:%Y-%m-%d %H:%M} UTC" if spent.resets_at else ""
    return ClientError(
        status=402, type=ErrorType.BILLING, message=f"the budget {spent.budget!r} is spent{until}", headers=NO_RETRY
    )


def rate_limited(limit: RateLimited) -> ClientError:
    return ClientError(
        status=429,
        type=ErrorType.RATE_LIMIT,
        message=f"this token's limit of {limit.limit} is reached",
        headers={"retry-after": str(max(1, ceil(limit.retry_after_s)))},
    )


def refused(refusal: Refusal, last: ClientError | None) -> ClientError:
    """Say that no credential can serve now: the last upstream's own words, with the time to come again."""
    raise NotImplementedError
