"""The playground: one message through a route, with the raw request to the upstream and the events side by side.

It goes the way of every call: routed, limited, recorded, and accounted to whoever sends it, on a token of theirs that
lives for an hour and whose text nobody ever sees.
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import orjson
from asgiref.sync import sync_to_async
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_protect
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from bridgeproject import services
from keys.entries import TokenEntry
from keys.models import ClientToken
from keys.roles import team_of
from keys.tokens import issue_token
from members.audit import acting
from members.setups import model_to_try
from translator.bookkeeping import Caller
from translator.calls import new_id
from translator.core.anthropic.request import parse_request
from translator.core.errors import TranslationError, to_client_error
from translator.core.estimate import estimate_input_tokens
from translator.messages_call import MessagesCall
from translator.playground import Sent, WatchedCall, masked
from translator.relay import CallFailed, Gateway
from translator.replies import Whole

PERMISSION = "keys.change_route"
#: The name of the token, and of the client in its usage records.
PLAYGROUND = "playground"
TOKEN_LIFE = timedelta(hours=1)
#: How long workers may take to learn of a new token, in seconds.
KNOWN_WITHIN_S = 5.0
#: A playground's answer ends here, in seconds.
LONGEST_S = 120


class PlaygroundForm(forms.Form):
    model = forms.CharField(label="Model alias", max_length=200, widget=UnfoldAdminTextInputWidget)
    system = forms.CharField(label="System", required=False, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}))
    message = forms.CharField(label="Message", widget=UnfoldAdminTextareaWidget(attrs={"rows": 5}))
    max_tokens = forms.IntegerField(
        label="Output tokens at most", min_value=1, max_value=8192, initial=300, widget=UnfoldAdminIntegerFieldWidget
    )
    stream = forms.BooleanField(label="Stream", required=False, initial=True, widget=UnfoldBooleanSwitchWidget)

    def body(self) -> bytes:
        """Write it as a client would."""
        said = self.cleaned_data
        body = {name: said[name] for name in ("model", "max_tokens", "stream")}
        body["messages"] = [{"role": "user", "content": said["message"]}]
        return orjson.dumps(body | ({"system": said["system"]} if said["system"] else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of it."""

    request_id: str
    attempts: list[Sent]
    #: What a client would have got.
    answer: str
    error: str = ""


@csrf_protect
async def play(request: HttpRequest) -> HttpResponse:
    user = await request.auser()
    if not isinstance(user, User):
        return redirect_to_login(request.get_full_path(), "admin:login")
    form, context = await sync_to_async(_prepare)(request, user)
    if request.method == "POST" and form.is_valid():
        token = await sync_to_async(_token_of)(user)
        context["played"] = await _play(form.body(), token, await services.gateway())
    answer = TemplateResponse(request, "keys/playground.html", context, headers={"Cache-Control": "no-store"})
    return await sync_to_async(answer.render)()


def _prepare(request: HttpRequest, user: User) -> tuple[PlaygroundForm, dict[str, Any]]:
    if not (admin.site.has_permission(request) and user.has_perm(PERMISSION)):
        raise PermissionDenied
    form = PlaygroundForm(request.POST or None, initial={"model": model_to_try(), "message": "Hello"})
    return form, {**admin.site.each_context(request), "title": "Playground", "form": form}


def _token_of(user: User) -> TokenEntry:
    """Return a token of the user's for playing, a new one if there is none."""
    rows = ClientToken.objects.filter(user=user, name=PLAYGROUND, revoked_at=None)
    row = rows.filter(expires_at__gt=timezone.now() + timedelta(seconds=LONGEST_S)).first()
    if row is None:
        with acting(user.get_username(), ""):
            row, _ = issue_token(user, PLAYGROUND, life=TOKEN_LIFE)
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


async def _play(body: bytes, token: TokenEntry, gateway: Gateway) -> Played:
    request_id = new_id("req")
    watched: WatchedCall | None = None
    heard, error = bytearray(), ""
    try:
        parsed = parse_request(body)
        call = MessagesCall(
            parsed,
            size=len(body),
            request_id=request_id,
            session_id=None,
            estimate=estimate_input_tokens(parsed),
            headers=(),
        )
        watched = WatchedCall(call)
        await _until_known(token, gateway)
        caller = Caller(
            token=token,
            request_id=request_id,
            client_name=PLAYGROUND,
            client_version="",
            session_id="",
            arrived_at=asyncio.get_running_loop().time(),
        )
        async with asyncio.timeout(LONGEST_S):
            await _hear(gateway, watched, caller, heard)
    except CallFailed as exc:
        error = f"{exc.error.status} {exc.error.type.value}: {exc.error.message}"
    except TranslationError as exc:
        told = to_client_error(exc)
        error = f"{told.status} {told.type.value}: {told.message}"
    except TimeoutError:
        error = f"no end after {LONGEST_S} seconds"
    sent = watched.sent if watched else []
    secrets = [secret for each in sent for secret in each.secrets]
    return Played(
        request_id=request_id, attempts=sent, answer=masked(heard.decode("utf-8", "replace"), secrets), error=error
    )


async def _hear(gateway: Gateway, watched: WatchedCall, caller: Caller, heard: bytearray) -> None:
    reply = (await gateway.answer(cast("Any", watched), caller)).reply
    if isinstance(reply, Whole):
        heard += orjson.dumps(orjson.loads(reply.body), option=orjson.OPT_INDENT_2)
        return
    async with aclosing(reply) as pieces:
        async for piece in pieces:
            heard += piece


async def _until_known(token: TokenEntry, gateway: Gateway) -> None:
    """Wait for this worker to learn of a new token: a stream on one that it doesn't know would be ended."""
    async with asyncio.timeout(KNOWN_WITHIN_S):
        while not gateway.directory.is_current(token):  # noqa: ASYNC110  (the directory tells nobody)
            await asyncio.sleep(0.05)
