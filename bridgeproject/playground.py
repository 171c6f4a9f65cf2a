"""The playground: one message through a route, with the raw request to the upstream and the events side by side."""

from dataclasses import dataclass
from typing import Any

import orjson
from asgiref.sync import sync_to_async
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.template.response import TemplateResponse
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from bridgeproject import services
from bridgeproject.own_calls import Told, call_messages, for_callers, token_of
from members.setups import model_to_try
from translator.playground import Sent

#: The name of the token, and of the client in its usage records.
PLAYGROUND = "playground"


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
    """What came of it, in words."""

    request_id: str
    attempts: list[Sent]
    #: What a client would have got.
    answer: str
    error: str = ""


@for_callers
async def play(request: HttpRequest, user: User) -> TemplateResponse:
    form, context = await sync_to_async(_prepare)(request)
    if request.method == "POST" and form.is_valid():
        token = await sync_to_async(token_of)(user, PLAYGROUND)
        context["played"] = _in_words(await call_messages(form.body(), token, await services.gateway()))
    return TemplateResponse(request, "keys/playground.html", context)


def _prepare(request: HttpRequest) -> tuple[PlaygroundForm, dict[str, Any]]:
    form = PlaygroundForm(request.POST or None, initial={"model": model_to_try(), "message": "Hello"})
    return form, {**admin.site.each_context(request), "title": "Playground", "form": form}


def _in_words(told: Told) -> Played:
    return Played(request_id=told.request_id, attempts=told.attempts, answer=_indented(told.text), error=told.failure)


def _indented(answer: str) -> str:
    """Lay a whole message out for reading; leave a stream as it is."""
    if not answer.startswith("{"):
        return answer
    return orjson.dumps(orjson.loads(answer), option=orjson.OPT_INDENT_2).decode()
