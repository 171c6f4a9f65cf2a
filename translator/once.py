"""`Idempotency-Key`: a call that a client sends again is made once.

Bridge keeps no answers, so a repetition learns how the first one stands: still running (409, worth another try) or
answered (409, with the first request's id), or that the key came with another body before (422).
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import psycopg

from translator import refusals
from translator.bookkeeping import Caller
from translator.calls import Call
from translator.core.errors import NO_RETRY, ClientError, ErrorType
from translator.relay import Answered, CallFailed, Gateway
from translator.stream import Stream
from usage.idempotency import Answered as Repeated
from usage.idempotency import Claimed, Idempotency, OtherBody, Running, is_valid_key

logger = logging.getLogger(__name__)

BAD_KEY = ClientError(
    status=400,
    type=ErrorType.INVALID_REQUEST,
    message="Idempotency-Key: 1 to 255 printable ASCII characters are needed",
)
#: Keeps the running tasks from being collected.
_tasks: set[asyncio.Task[None]] = set()


async def answer_once(gateway: Gateway, call: Call, caller: Caller, *, key: str, body: bytes) -> Answered:
    """Get the call answered unless a call with the same key was.

    Raises:
        CallFailed: It was, or the key can't be used, or as `Gateway.answer`.
    """
    if not is_valid_key(key):
        raise CallFailed(BAD_KEY)
    try:
        standing = await gateway.idempotency.claim(caller.token.id, key, body=body, request_id=caller.request_id)
    except (psycopg.Error, OSError, TimeoutError) as exc:
        raise CallFailed(refusals.NO_LEDGER) from exc
    if not isinstance(standing, Claimed):
        raise CallFailed(refusal(standing))
    try:
        answered = await gateway.answer(call, caller)
    except BaseException:
        _conclude(gateway.idempotency, standing, is_answered=False)
        raise
    if isinstance(answered.reply, Stream):
        stream = answered.reply
        stream.when_closed.append(lambda: _conclude(gateway.idempotency, standing, is_answered=stream.has_ended_well))
    else:
        _conclude(gateway.idempotency, standing, is_answered=True)
    return answered


def refusal(standing: Running | Repeated | OtherBody) -> ClientError:
    """Say why the call isn't made."""
    match standing:
        case Running(request_id=first):
            return ClientError(
                status=409,
                type=ErrorType.CONFLICT,
                message=f"the request with this Idempotency-Key still runs, as {first}",
                headers={"retry-after": "2"},
            )
        case Repeated(request_id=first):
            return ClientError(
                status=409,
                type=ErrorType.CONFLICT,
                message=f"the request with this Idempotency-Key was answered, as {first}",
                headers=NO_RETRY,
            )
        case OtherBody(request_id=first):
            return ClientError(
                status=422,
                type=ErrorType.INVALID_REQUEST,
                message=f"this Idempotency-Key came with another body before, as {first}",
                headers=NO_RETRY,
            )


def _conclude(idempotency: Idempotency, claimed: Claimed, *, is_answered: bool) -> None:
    """Write down how the call ended, in a task of its own: its client may be gone."""
    work = idempotency.finish(claimed, 200) if is_answered else idempotency.forget(claimed)
    task = asyncio.create_task(_logged(work), name="idempotency key")
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (psycopg.Error, OSError, TimeoutError) as exc:
        # The key stays as it is until its day is over: a repetition is refused rather than made twice.
        logger.warning("an Idempotency-Key could not be concluded: %s", type(exc).__name__)
