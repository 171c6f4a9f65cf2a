"""What a client is told when we ourselves say no."""

from math import ceil

from keys.pool.failover import Reason, Refusal
from translator.core.errors import NO_RETRY, ClientError, ErrorType
from usage.ledger import BudgetHeld, OverBudget, RateLimited
from usage.templatetags.figures import usd

NO_TOKEN = ClientError(
    status=401, type=ErrorType.AUTHENTICATION, message="invalid x-api-key", headers=NO_RETRY
)  # Claude Code would try for three minutes without that header
TWO_TOKENS = ClientError(
    status=400, type=ErrorType.INVALID_REQUEST, message="x-api-key and Authorization hold two different tokens of ours"
)
SHUT_DOWN = ClientError(
    status=503, type=ErrorType.OVERLOADED, message="the gateway is shutting down", headers={"retry-after": "2"}
)
REVOKED = ClientError(
    status=401, type=ErrorType.AUTHENTICATION, message="the token was revoked or has expired", headers=NO_RETRY
)
NO_LEDGER = ClientError(
    status=503,
    type=ErrorType.API,
    message="usage can't be recorded now, so nothing was sent",
    headers={"retry-after": "2"},
)
FULL = ClientError(status=429, type=ErrorType.RATE_LIMIT, message="the credential's own limit is reached")
TOO_LARGE = ClientError(status=413, type=ErrorType.TOO_LARGE, message="Request exceeds the maximum size")
TOO_SLOW = ClientError(status=408, type=ErrorType.TIMEOUT, message="the body did not arrive in time")
CROWDED = ClientError(
    status=429,
    type=ErrorType.RATE_LIMIT,
    message="too many large requests are being read",
    headers={"retry-after": "2"},
)
NO_PLACE = ClientError(
    status=503,
    type=ErrorType.OVERLOADED,
    message="the gateway makes as many calls as it can",
    headers={"retry-after": "2"},
)
NO_PLACE_OF_MEMBER = ClientError(
    status=429,
    type=ErrorType.RATE_LIMIT,
    message="this member has as many calls running as one may have",
    headers={"retry-after": "2"},
)
CRASHED = ClientError(status=500, type=ErrorType.API, message="Internal server error")
ENCODED_BODY = ClientError(
    status=400, type=ErrorType.INVALID_REQUEST, message="compressed request bodies are not supported"
)


def too_many_guesses(wait_s: float) -> ClientError:
    return ClientError(
        status=429,
        type=ErrorType.RATE_LIMIT,
        message="too many requests without a valid token",
        headers={**NO_RETRY, "retry-after": str(ceil(wait_s))},
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


def forbidden_place(address: str) -> ClientError:
    return ClientError(
        status=403,
        type=ErrorType.PERMISSION,
        message=f"this token may not be used from {address[:60] or 'an unknown address'}",
        headers=NO_RETRY,
    )


def not_found(path: str) -> ClientError:
    return ClientError(status=404, type=ErrorType.NOT_FOUND, message=f"there is nothing at {path[:200]}")


def wrong_method(method: str) -> ClientError:
    return ClientError(status=405, type=ErrorType.INVALID_REQUEST, message=f"{method[:20]} is not allowed here")


def over_budget(refusal: OverBudget) -> ClientError:
    """Say what a budget lacks: it is spent, or what is left is less than the call may need, or is held for now."""
    name, room = refusal.budget, refusal.room
    left, needed = (_amount(number, room.unit) for number in (room.left, room.needed))
    headers = NO_RETRY
    if isinstance(refusal, BudgetHeld):
        says = f"running calls hold what is left of the budget {name!r} ({left}, of which this call may need up to {needed})"
        headers = {"x-should-retry": "true", "retry-after": str(refusal.retry_after_s)}
    elif room.left:
        says = f"the budget {name!r} has {left} left, and this call may need up to {needed}: a smaller max_tokens needs less"
    else:
        says = f"the budget {name!r} is spent"
    until = f"; it starts anew at {refusal.resets_at:%Y-%m-%d %H:%M} UTC" if refusal.resets_at else ""
    return ClientError(status=402, type=ErrorType.BILLING, message=says + until, headers=headers)


def _amount(number: int, unit: str) -> str:
    return usd(number) if unit == "usd" else f"{number:,} tokens"


def rate_limited(limit: RateLimited) -> ClientError:
    return ClientError(
        status=429,
        type=ErrorType.RATE_LIMIT,
        message=f"this token's limit of {limit.limit} is reached",
        headers={**limit.headers, "retry-after": str(max(1, ceil(limit.retry_after_s)))},
    )


#: The pool's reasons in words; the error's type follows from the status.
POOL_WORDS = {
    Reason.SATURATED: (ErrorType.OVERLOADED, "Overloaded: every upstream credential is resting or full"),
    Reason.RATE_LIMITED: (ErrorType.RATE_LIMIT, "every upstream credential is rate limited"),
    Reason.NO_CREDENTIAL: (ErrorType.API, "no upstream credential can serve this model; an administrator must look"),
}
#: Clients refuse to wait longer than a minute.
RETRY_AFTER_MAX_S = 60


def refused(refusal: Refusal) -> ClientError:
    """Say that no credential can serve now, and when it is worth coming back."""
    type_, message = POOL_WORDS[refusal.reason]
    headers = {}
    if refusal.retry_after_s is not None:
        headers["retry-after"] = str(min(max(1, ceil(refusal.retry_after_s)), RETRY_AFTER_MAX_S))
    elif refusal.reason is Reason.NO_CREDENTIAL:
        headers.update(NO_RETRY)
    return ClientError(status=refusal.status, type=type_, message=message, headers=headers)
