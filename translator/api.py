"""The public endpoints. A route parses, calls the relay and renders; errors are turned into answers here."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hmac import compare_digest
from math import ceil
from time import monotonic
from typing import Any

import orjson
from django.conf import settings
from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import NinjaAPI
from ninja.security import APIKeyHeader, HttpBearer

from keys.addresses import address_of
from keys.entries import TokenEntry
from keys.last_refused import Refused
from keys.leaks import Leak
from keys.tokens import PREFIX
from translator import models_page, refusals
from translator.bookkeeping import Caller
from translator.calls import Call
from translator.chat_call import ChatCall
from translator.core.anthropic.errors import render_error
from translator.core.anthropic.request import parse_request
from translator.core.anthropic.schema import request_schema
from translator.core.emulation.prompt import added_tokens
from translator.core.errors import ClientError, TranslationError, to_client_error
from translator.core.estimate import estimate_input_tokens
from translator.core.openai_chat.errors import render_error as render_chat_error
from translator.core.openai_chat.passthrough import parse_chat_request
from translator.long_history import HEADER as COMPACTION_HEADER
from translator.messages_call import MessagesCall
from translator.metrics import REFUSED_STRANGERS
from translator.metrics import render as render_metrics
from translator.offload import is_crowded, off_loop
from translator.once import answer_once
from translator.relay import Answered, CallFailed, Gateway
from translator.replies import Whole
from translator.stream import Stream
from usage.summaries import SummaryStoreAway

STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
#: `claude-cli/2.1.332 (external, cli)` or `Anthropic/Python 2.14.0`: name and version.
CLIENT = re.compile(r"([A-Za-z0-9_.-]{1,40}(?:/[A-Za-z]{1,20})?)[/ ](\d[A-Za-z0-9_.+-]{0,29})")

#: Headers that tell which conversation a call belongs to, best first.
SESSION_HEADERS = ("x-claude-code-session-id", "x-session-id", "x-session-affinity")
#: A sub-agent's id, as Claude Code sends it; the main agent has none.
AGENT_HEADER = "x-claude-code-agent-id"
#: The client's own name for a request, the one that no proxy on the way sets first.
REQUEST_ID_HEADERS = ("x-client-request-id", "x-request-id")
REQUEST_ID_MAX = 128
#: What a request is for, where Claude Code is asked to say so (CLAUDE_CODE_GATEWAY_HINT_HEADERS=1), the closer first.
AGENT_KIND_HEADERS = ("x-claude-code-agent-type", "x-claude-code-request-class")
LOOPBACK = ("127.0.0.1", "::1")
CHAT_PREFIX = "/v1/chat/"


class ApiKey(APIKeyHeader):
    """For the API's page, and so that no route answers whom `authenticate` hasn't let in."""

    param_name = "x-api-key"

    async def authenticate(self, request: HttpRequest, key: str | None) -> TokenEntry | None:
        return getattr(request, "token", None)


class BearerToken(HttpBearer):
    """The same, in the other header."""

    async def authenticate(self, request: HttpRequest, token: str) -> TokenEntry | None:
        return getattr(request, "token", None)


def body_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a body for the API's page; routes read their bodies themselves."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


api = NinjaAPI(
    title="Bridge",
    version="1",
    description="Anthropic's Messages API, and OpenAI's chat/completions, on the team's upstreams.",
    urls_namespace="api",
    docs_url="/docs",
    docs_decorator=staff_member_required,
    auth=[ApiKey(), BearerToken()],
)


class Unauthorized(Exception):
    """The request carries no token of ours that may be used."""

    def __init__(self, error: ClientError, token_ids: Sequence[int] = (), *, noted: ClientError | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        #: Tokens of ours all the same, whose members are told more: of `noted`.
        self.token_ids = token_ids
        self.noted = noted or error


def authenticate(request: HttpRequest, gateway: Gateway) -> TokenEntry:
    """Return whose token the request carries, in `x-api-key` or `Authorization: Bearer`.

    A foreign key beside one of ours is ignored: clients that once logged in elsewhere send both.

    Raises:
        Unauthorized: None of ours, none that may be used, or two different ones.
    """
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    sent = {request.headers.get("x-api-key", "").strip(), bearer.strip() if scheme.lower() == "bearer" else ""}
    ours = [token for token in sent if token.startswith(PREFIX)]
    if len(ours) > 1:
        known = [entry.id for token in ours if (entry := gateway.directory.authenticate(token))]
        raise Unauthorized(refusals.TWO_TOKENS, known)
    entry = gateway.directory.authenticate(ours[0]) if ours else None
    address = address_of(request)
    if entry is None:
        wait_s = gateway.strangers.note(address, monotonic())
        REFUSED_STRANGERS.inc()
        error = refusals.too_many_guesses(wait_s) if wait_s else refusals.NO_TOKEN
        ended = gateway.directory.ended(ours[0]) if ours else None
        raise Unauthorized(error, [ended] if ended is not None else [], noted=refusals.REVOKED)
    if not entry.may_come_from(address):
        raise Unauthorized(refusals.forbidden_place(address), [entry.id])
    return entry


class ApiRequest(HttpRequest):
    """What `bridgeproject.lean` hands to a route: an ordinary request, and what is known about it by then."""

    gateway: Gateway
    token: TokenEntry
    request_id: str
    #: When the whole body was here, on the loop's clock.
    arrived_at: float
    #: For its usage records.
    notes: tuple[str, ...]


@api.post("/v1/messages", openapi_extra=body_of(request_schema()))
async def create_message(request: ApiRequest) -> HttpResponse | StreamingHttpResponse:
    """Answer a conversation, whole or as a stream of events."""
    parsed, size = await read(request, parse_request)
    call = MessagesCall(
        parsed,
        size=size,
        request_id=request.request_id,
        session_id=session_of(request),
        estimate=await off_loop(size, estimate_input_tokens, parsed),
        headers=request.headers.items(),
        may_compact=request.headers.get(COMPACTION_HEADER, "").strip().lower() != "off",
    )
    if parsed.max_tokens == 0:
        return HttpResponse(call.empty_answer(), content_type="application/json")
    return show(await answer(request, call))


@api.post("/v1/messages/count_tokens", openapi_extra=body_of(request_schema(for_counting=True)))
async def count_tokens(request: ApiRequest) -> HttpResponse:
    """Estimate the input tokens of a conversation; no upstream is asked."""
    parsed, size = await read(request, partial(parse_request, for_counting=True))
    factor = request.gateway.input_factor(parsed.model)
    tokens = await off_loop(size, estimate_input_tokens, parsed, factor)
    if request.gateway.emulates_tools(parsed.model):
        tokens += ceil(added_tokens(parsed) * factor)
    return answer_json({"input_tokens": tokens})


@api.post("/v1/chat/completions", openapi_extra=body_of({"type": "object"}))
async def create_chat_completion(request: ApiRequest) -> HttpResponse | StreamingHttpResponse:
    """Answer an OpenAI client's conversation; passed on unchanged but for the model's name."""
    parsed, size = await read(request, parse_chat_request)
    call = ChatCall(parsed, size=size, session_id=session_of(request))
    return show(await answer(request, call))


@api.get("/v1/models")
async def list_models(request: ApiRequest) -> HttpResponse:
    """List the model aliases that this token may use, a page at a time."""
    aliases = await models_page.known_aliases(request.gateway)
    return answer_json(models_page.render_list(aliases, request.token, request.GET))


@api.get("/v1/models/{path:model_id}")
async def get_model(request: ApiRequest, model_id: str) -> HttpResponse:
    """Show one model alias."""
    return answer_json(models_page.render_one(request.gateway.directory, request.token, model_id))


@api.get("/v1/summaries/{request_id}")
async def get_summary(request: ApiRequest, request_id: str) -> HttpResponse:
    """Show the summary that stands for old messages of a conversation, to the member whose conversation it is."""
    try:
        receipt = await request.gateway.summaries.receipt(request.token.user_id, request_id)
    except SummaryStoreAway as exc:
        raise CallFailed(refusals.NO_LEDGER) from exc
    if receipt is None:
        return error_response(request.path, refusals.not_found(request.path), request.request_id)
    return answer_json(
        {
            "type": "summary",
            "text": receipt.summary.text,
            "covered": receipt.summary.covered,
            "written_by": receipt.written_by,
            "request_id": receipt.summary.request_id,
            "made_at": receipt.made_at,
        },
        headers={"cache-control": "no-store"},
    )


@api.get("/livez", include_in_schema=False, auth=None)
async def livez(request: ApiRequest) -> HttpResponse:
    """Say that the process runs; touches nothing."""
    return answer_json({"status": "alive"})


@api.get("/readyz", include_in_schema=False, auth=None)
async def readyz(request: ApiRequest) -> HttpResponse:
    """Say whether new calls can be taken, and if not, why."""
    state = request.gateway.readiness()
    return answer_json(state, status=200 if state["ready"] else 503)


@api.get("/metrics", include_in_schema=False, auth=None)
async def metrics(request: ApiRequest) -> HttpResponse:
    """Show the numbers for Prometheus, on this machine or to whoever has the metrics token."""
    if not may_see_metrics(request):
        return error_response(request.path, refusals.not_found(request.path), request.request_id)
    return HttpResponse(render_metrics(), content_type="text/plain; version=0.0.4; charset=utf-8")


def may_see_metrics(request: ApiRequest) -> bool:
    wanted = settings.METRICS_TOKEN
    if wanted:
        return compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {wanted}".encode())
    return request.META.get("REMOTE_ADDR") in LOOPBACK


async def read[Parsed](request: ApiRequest, parse: Callable[[bytes], Parsed]) -> tuple[Parsed, int]:
    """Return the parsed body and its size.

    Raises:
        CallFailed: It is large, and too many large ones wait.
    """
    size = len(request.body)
    if is_crowded(size):
        raise CallFailed(refusals.CROWDED)
    parsed, leaks = await off_loop(size, _parse_and_watch, request, parse)
    note_leaks(request, leaks)
    return parsed, size


def _parse_and_watch[Parsed](request: ApiRequest, parse: Callable[[bytes], Parsed]) -> tuple[Parsed, tuple[Leak, ...]]:
    return parse(request.body), request.gateway.directory.leaks_in(request.body)


async def answer(request: ApiRequest, call: Call) -> Answered:
    caller = caller_of(request, call.session_id)
    if key := request.headers.get("idempotency-key"):
        return await answer_once(request.gateway, call, caller, key=key, body=request.body)
    return await request.gateway.answer(call, caller)


def show(answered: Answered) -> HttpResponse | StreamingHttpResponse:
    if isinstance(answered.reply, Whole):
        return HttpResponse(answered.reply.body, content_type="application/json", headers=answered.headers)
    return EventStream(answered.reply, answered.headers)


class EventStream(StreamingHttpResponse):
    """A stream of events; `pieces` must be closed by whoever sends it, also when it was never begun."""

    def __init__(self, pieces: Stream, headers: Mapping[str, str]) -> None:
        super().__init__(pieces, content_type="text/event-stream; charset=utf-8", headers={**STREAM_HEADERS, **headers})
        self.pieces = pieces


def client_of(request: ApiRequest) -> tuple[str, str]:
    """Return the client's name and version, as far as it says them."""
    found = CLIENT.match(request.headers.get("user-agent", ""))
    return (found[1], found[2]) if found else ("", "")


def caller_of(request: ApiRequest, session_id: str | None) -> Caller:
    client_name, client_version = client_of(request)
    return Caller(
        token=request.token,
        request_id=request.request_id,
        client_name=client_name,
        client_version=client_version,
        session_id=session_id or "",
        arrived_at=request.arrived_at,
        agent_id=request.headers.get(AGENT_HEADER, ""),
        agent_kind=first_of(request, AGENT_KIND_HEADERS) or "",
        notes=request.notes,
        client_request_id=client_request_id_of(request),
    )


def client_request_id_of(request: ApiRequest) -> str:
    """Return what the client calls its request, cut to what a record holds; nothing where it isn't printable ASCII."""
    said = (first_of(request, REQUEST_ID_HEADERS) or "")[:REQUEST_ID_MAX]
    return said if said.isascii() and said.isprintable() else ""


def session_of(request: ApiRequest) -> str | None:
    return first_of(request, SESSION_HEADERS)


def first_of(request: ApiRequest, names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := request.headers.get(name))), None)


def note_leaks(request: ApiRequest, leaks: Sequence[Leak]) -> None:
    """Keep that secrets of ours stood in the request's text; in memory, written later. The request goes its way."""
    for leak in leaks:
        request.gateway.sightings.note(leak, request_id=request.request_id, user_id=request.token.user_id)
    request.notes = tuple(sorted({f"{leak.kind}_in_text" for leak in leaks}))


def answer_json(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return HttpResponse(orjson.dumps(content), status=status, content_type="application/json", headers=headers)


def error_response(path: str, error: ClientError, request_id: str) -> HttpResponse:
    """Say an error in the dialect of the endpoint."""
    body = render_chat_error(error) if path.startswith(CHAT_PREFIX) else render_error(error, request_id)
    return answer_json(body, status=error.status, headers=error.headers)


def note_refusal(request: ApiRequest, error: ClientError, token_id: int | None = None) -> None:
    """Keep what a token's request was turned away with, for its member; in memory, written later."""
    client_name, client_version = client_of(request)
    refused = Refused(
        request_id=request.request_id,
        status=error.status,
        error_type=error.type.value,
        message=error.message,
        method=request.method or "",
        path=request.path,
        client_name=client_name,
        client_version=client_version,
    )
    request.gateway.last_refused.note(request.token.id if token_id is None else token_id, refused)


@api.exception_handler(CallFailed)
def _call_failed(request: ApiRequest, exc: CallFailed) -> HttpResponse:
    if not exc.was_tried:
        note_refusal(request, exc.error)
    return error_response(request.path, exc.error, request.request_id)


@api.exception_handler(TranslationError)
def _not_translated(request: ApiRequest, exc: TranslationError) -> HttpResponse:
    error = to_client_error(exc)
    note_refusal(request, error)
    return error_response(request.path, error, request.request_id)
