"""Calls that a page of the admin makes for whoever has it open.

They go the way of every call: routed, limited, recorded, and accounted to that user, on a token of theirs that lives
for an hour and whose text nobody ever sees.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_protect

from keys.entries import TokenEntry
from keys.models import ClientToken
from keys.roles import team_of
from keys.tokens import issue_token
from members.audit import acting
from translator.bookkeeping import Caller
from translator.calls import new_id
from translator.core.anthropic.request import parse_request
from translator.core.errors import ClientError, TranslationError, to_client_error
from translator.core.estimate import estimate_input_tokens
from translator.messages_call import MessagesCall
from translator.playground import Sent, WatchedCall, masked
from translator.relay import CallFailed, Gateway
from translator.replies import Whole

PERMISSION = "keys.change_route"
TOKEN_LIFE = timedelta(hours=1)
#: How long workers may take to learn of a new token, in seconds.
KNOWN_WITHIN_S = 5.0
#: No answer takes longer, in seconds.
LONGEST_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of a call."""

    request_id: str
    attempts: list[Sent]
    #: All bytes that a client would have got.
    answer: bytes
    error: ClientError | None = None
    #: The deadline that passed first; None when none did.
    late_after_s: float | None = None

    @property
    def failure(self) -> str:
        """What went wrong, in words; empty when nothing did."""
        if self.late_after_s is not None:
            return f"no end after {self.late_after_s:.0f} seconds"
        return f"{self.error.status} {self.error.type.value}: {self.error.message}" if self.error else ""

    @property
    def text(self) -> str:
        """The answer as text, with our secrets masked: an upstream may have repeated one."""
        secrets = [secret for each in self.attempts for secret in each.secrets]
        return masked(self.answer.decode("utf-8", "replace"), secrets)


View = Callable[[HttpRequest, User], Awaitable[TemplateResponse]]


def for_callers(view: View) -> Callable[[HttpRequest], Coroutine[Any, Any, HttpResponseBase]]:
    """Let in staff who may change routes; others are sent to the login or told that they may not."""

    @csrf_protect
    async def checked(request: HttpRequest) -> HttpResponseBase:
        user = await request.auser()
        if not isinstance(user, User):
            return redirect_to_login(request.get_full_path(), "admin:login")
        await sync_to_async(_refuse_strangers)(request, user)
        answer = await view(request, user)
        answer.headers["Cache-Control"] = "no-store"
        return await sync_to_async(answer.render)()

    return checked


def _refuse_strangers(request: HttpRequest, user: User) -> None:
    if not (admin.site.has_permission(request) and user.has_perm(PERMISSION)):
        raise PermissionDenied


def token_of(user: User, name: str) -> TokenEntry:
    """Return the user's token of that name, a new one if none lives long enough."""
    rows = ClientToken.objects.filter(user=user, name=name, revoked_at=None)
    row = rows.filter(expires_at__gt=timezone.now() + timedelta(seconds=LONGEST_S)).first()
    if row is None:
        with acting(user.get_username(), ""):
            row, _ = issue_token(user, name, life=TOKEN_LIFE)
    team_id = team_of(user)
    team = Group.objects.get(pk=team_id) if team_id else None
    return TokenEntry(
        id=row.pk,
        name=row.name,
        user_id=user.pk,
        user_name=user.get_username(),
        team_id=team.pk if team else None,
        team_name=team.name if team else "",
        scopes=tuple(row.scopes),
        expires_at=row.expires_at,
        rpm=row.rpm,
        tpm=row.tpm,
        concurrency=row.concurrency,
    )


async def call_messages(body: bytes, token: TokenEntry, gateway: Gateway, *, within_s: float = LONGEST_S) -> Told:
    """Make a call of the Messages API, and hear its answer to the end; the token's name is the client's."""
    request_id = new_id("req")
    watched: WatchedCall | None = None
    heard, error, late_after_s = bytearray(), None, None
    try:
        watched = _watched(body, request_id)
        await _until_known(token, gateway)
        caller = Caller(
            token=token,
            request_id=request_id,
            client_name=token.name,
            client_version="",
            session_id="",
            arrived_at=asyncio.get_running_loop().time(),
        )
        async with asyncio.timeout(within_s):
            await _hear(gateway, watched, caller, heard)
    except CallFailed as exc:
        error = exc.error
    except TranslationError as exc:
        error = to_client_error(exc)
    except TimeoutError:
        late_after_s = within_s
    sent = watched.sent if watched else []
    return Told(request_id=request_id, attempts=sent, answer=bytes(heard), error=error, late_after_s=late_after_s)


def _watched(body: bytes, request_id: str) -> WatchedCall:
    parsed = parse_request(body)
    estimate = estimate_input_tokens(parsed)
    call = MessagesCall(parsed, size=len(body), request_id=request_id, session_id=None, estimate=estimate, headers=())
    return WatchedCall(call)


async def _hear(gateway: Gateway, watched: WatchedCall, caller: Caller, heard: bytearray) -> None:
    reply = (await gateway.answer(cast("Any", watched), caller)).reply
    if isinstance(reply, Whole):
        heard += reply.body
        return
    async with aclosing(reply) as pieces:
        async for piece in pieces:
            heard += piece


async def _until_known(token: TokenEntry, gateway: Gateway) -> None:
    """Wait for this worker to learn of a new token: a stream on one that it doesn't know would be ended."""
    async with asyncio.timeout(KNOWN_WITHIN_S):
        while gateway.directory.current(token.id) is None:  # noqa: ASYNC110  (the directory tells nobody)
            await asyncio.sleep(0.05)
