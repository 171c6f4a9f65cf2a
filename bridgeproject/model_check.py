"""The page that checks what a model can do for Claude Code: all checks at once, or one after the other by its script.

Its requests go the way of every call, and count as those of whoever asks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

from bridgeproject import services
from bridgeproject.own_calls import Told, call_messages, for_callers, token_of
from keys.models import Route
from members.setups import model_to_try
from translator.checking import AT_ONCE, DEADLINE_S, Ask, Outcome, check_model, check_one
from translator.core.model_checks.checks import CHECKS, find_check
from translator.core.model_checks.conclusion import conclude
from translator.core.model_checks.heard import Heard, hear_stream, hear_whole
from translator.core.model_checks.judges import Verdict
from translator.relay import Gateway

#: The name of the token, and of the client in its usage records.
MODEL_CHECK = "model check"
PAGE = "keys/model_check.html"
ROW, CONCLUSION = "keys/_check.html", "keys/_check_conclusion.html"
ALIASES_MAX = 200


class CheckForm(forms.Form):
    model = forms.CharField(max_length=200)


class OneForm(CheckForm):
    check = forms.ChoiceField(choices=[(check.name, check.title) for check in CHECKS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something can be set that a check advises."""

    upstream: str
    upstream_url: str
    model: str
    model_url: str


@for_callers
async def show(request: HttpRequest, user: User) -> TemplateResponse:
    context = await sync_to_async(_page)(request)
    form = CheckForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        alias = form.cleaned_data["model"]
        gateway = await services.gateway()
        ask = await _asker(user, gateway)
        made = {outcome.check.name: outcome async for outcome in check_model(alias, ask)}
        verdicts = {name: outcome.finding.verdict for name, outcome in made.items()}
        context |= {"rows": _rows(made), "alias": alias, "is_done": True, **_concluded(alias, verdicts, gateway)}
    return TemplateResponse(request, PAGE, context)


@for_callers
async def show_one(request: HttpRequest, user: User) -> TemplateResponse:
    form = OneForm(request.POST)
    if not form.is_valid():
        raise BadRequest(form.errors.as_text())
    check = find_check(form.cleaned_data["check"])
    assert check is not None  # noqa: S101  (the form knows them all)
    ask = await _asker(user, await services.gateway())
    outcome = await check_one(check, form.cleaned_data["model"], ask)
    return TemplateResponse(request, ROW, {"check": check, "outcome": outcome})


@for_callers
async def show_conclusion(request: HttpRequest, user: User) -> TemplateResponse:
    """Conclude from verdicts that the page has; those that are missing or make no sense count as failed."""
    form = CheckForm(request.POST)
    if not form.is_valid():
        raise BadRequest(form.errors.as_text())
    said = {check.name: request.POST.get(f"verdict-{check.name}", "") for check in CHECKS}
    verdicts = {name: Verdict(word) for name, word in said.items() if word in list(Verdict)}
    context = _concluded(form.cleaned_data["model"], verdicts, await services.gateway())
    return TemplateResponse(request, CONCLUSION, context)


def _page(request: HttpRequest) -> dict[str, Any]:
    aliases = Route.objects.filter(enabled=True).values_list("alias", flat=True)[:ALIASES_MAX]
    return {
        **admin.site.each_context(request),
        "title": "Model check",
        "aliases": list(aliases),
        "alias": model_to_try(),
        "rows": _rows({}),
        "at_once": AT_ONCE,
    }


def _rows(made: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    return [{"check": check, "outcome": made.get(check.name)} for check in CHECKS]


async def _asker(user: User, gateway: Gateway) -> Ask:
    token = await sync_to_async(token_of)(user, MODEL_CHECK)

    async def ask(check: Any, body: bytes) -> Heard:
        told = await call_messages(body, token, gateway, within_s=DEADLINE_S)
        return _heard(told, stream=check.stream)

    return ask


def _heard(told: Told, *, stream: bool) -> Heard:
    """Read an answer as a client would, and add what only the gateway knows."""
    if told.failure:
        heard = Heard(status=told.error.status if told.error else 0, error=told.failure)
    else:
        heard = (hear_stream if stream else hear_whole)(told.text.encode())
    if not told.attempts:
        return replace(heard, request_id=told.request_id)
    last = told.attempts[-1]
    return replace(
        heard,
        request_id=told.request_id,
        usage_source=last.usage_source,
        notes=last.all_notes,
        served_by=f"{last.upstream}/{last.model_name}",
    )


def _concluded(alias: str, verdicts: Mapping[str, Verdict], gateway: Gateway) -> dict[str, Any]:
    return {"conclusion": conclude(verdicts), "places": list(_places(alias, gateway))}


def _places(alias: str, gateway: Gateway) -> Iterable[Place]:
    """Give the forms of the upstream models behind an alias; for one that Bridge knows nothing of, the form of a new one."""
    route = gateway.directory.resolve(alias)
    for target in (*route.targets, *route.fallbacks) if route else ():
        if target.model is not None:
            model_url = reverse("admin:keys_upstreammodel_change", args=[target.model.id])
        else:
            known = urlencode({"upstream": target.upstream.id, "name": target.model_name})
            model_url = f"{reverse('admin:keys_upstreammodel_add')}?{known}"
        yield Place(
            upstream=target.upstream.name,
            upstream_url=reverse("admin:keys_upstream_change", args=[target.upstream.id]),
            model=target.model_name,
            model_url=model_url,
        )
