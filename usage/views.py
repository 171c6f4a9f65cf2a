"""The usage API: reports and records as JSON or CSV, for who is logged in and for client tokens that may read it.

A client token needs the scope `usage:read`, and reads what its member may see. Without it, a token is told of each request that
was made with it.
"""

from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any
from uuid import UUID

import orjson
from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from keys.addresses import address_of
from keys.models import ClientToken
from keys.networks import admits, networks_of
from keys.tokens import digest, is_well_formed
from usage.answers import answers, time_before
from usage.exports import as_csv, records_csv, records_json
from usage.finding import of_request
from usage.ids import first_id_at
from usage.models import UsageRecord
from usage.questions import asked, asked_of_answers
from usage.reports import (
    EXPORT_MAX,
    PAGE_MAX,
    ROWS_MAX,
    TOKEN_KINDS,
    Question,
    attempts_in,
    records,
    report,
)
from usage.session_reports import DAYS_MAX, SESSION_COLUMNS, sessions
from usage.tallies import ANSWER_COLUMNS, as_csv_row, as_row
from usage.visibility import Scope, scope_of

READ_SCOPE = "usage:read"
PAGE_DEFAULT = 100
#: What a token is told of its own request, and for how long.
TOLD_FOR = timedelta(days=1)
ATTEMPT_COLUMNS = (
    "attempt", "state", "source", "http_status", "error_type", "stop_reason", "alias", "upstream_name", "upstream_model",
    "stream", *TOKEN_KINDS, "ttft_ms", "duration_ms", "notes",
)  # fmt: skip


class Refused(Exception):
    """The asker gets this status and text."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


@require_safe
async def report_view(request: HttpRequest) -> HttpResponseBase:
    try:
        question = asked(request.GET, await scope_of_asker(request))
    except (Refused, ValueError) as refusal:
        return _refusal(refusal)
    is_file = request.GET.get("format") == "csv"
    limit = EXPORT_MAX if is_file else ROWS_MAX
    rows = await sync_to_async(report)(question, limit=limit)
    # Whoever adds the rows up must know that some are missing.
    is_cut = len(rows) == limit
    if is_file:
        columns = list(rows[0]) if rows else list(question.groups)
        response = HttpResponse(as_csv(columns, rows), content_type="text/csv; charset=utf-8")
        response["x-truncated"] = str(is_cut).lower()
        return _download(response, "usage.csv")
    answer = {"from": question.start, "to": question.end, "by": question.groups, "truncated": is_cut, "rows": rows}
    return _json(answer)


@require_safe
async def sessions_view(request: HttpRequest) -> HttpResponseBase:
    try:
        question = asked(request.GET, await scope_of_asker(request), groups=(), days=DAYS_MAX)
        rows = await sync_to_async(sessions)(question)
    except (Refused, ValueError) as refusal:
        return _refusal(refusal)
    if request.GET.get("format") == "csv":
        text = as_csv(SESSION_COLUMNS, rows)
        return _download(HttpResponse(text, content_type="text/csv; charset=utf-8"), "sessions.csv")
    return _json({"from": question.start, "to": question.end, "sessions": rows})


@require_safe
async def answers_view(request: HttpRequest) -> HttpResponseBase:
    is_file = request.GET.get("format") == "csv"
    limit = EXPORT_MAX if is_file else ROWS_MAX
    try:
        question = asked_of_answers(request.GET, await scope_of_asker(request))
        found = await sync_to_async(answers)(question, limit=limit)
    except (Refused, ValueError) as refusal:
        return _refusal(refusal)
    is_cut = len(found) == limit
    if is_file:
        text = as_csv(ANSWER_COLUMNS, map(as_csv_row, found))
        response = HttpResponse(text, content_type="text/csv; charset=utf-8")
        response["x-truncated"] = str(is_cut).lower()
        return _download(response, "answers.csv")
    times = {"before": time_before(question), "from": question.start, "to": question.end}
    return _json({**times, "truncated": is_cut, "rows": [as_row(one) for one in found]})


@require_safe
async def records_view(request: HttpRequest) -> HttpResponseBase:
    try:
        question = asked(request.GET, await scope_of_asker(request), groups=())
        after, limit = _page(request.GET)
    except (Refused, ValueError) as refusal:
        return _refusal(refusal)
    match request.GET.get("format"):
        case "csv":
            stream = StreamingHttpResponse(records_csv(question), content_type="text/csv; charset=utf-8")
            return await _stream(stream, question, "records.csv")
        case "jsonl":
            stream = StreamingHttpResponse(records_json(question), content_type="application/jsonl")
            return await _stream(stream, question, "records.jsonl")
    rows, following = await sync_to_async(records)(question, after=after, limit=limit)
    return _json({"records": rows, "after": following})


@require_safe
async def request_view(request: HttpRequest, request_id: str) -> HttpResponseBase:
    """Tell a client token what became of a request that was made with it."""
    try:
        told = await sync_to_async(_own_request)(_sent_token(request), address_of(request), request_id)
    except Refused as refusal:
        return _refusal(refusal)
    return _json(told)


def _own_request(plain: str, address: str, asked_id: str) -> dict[str, Any]:
    """Find the request by our id, or else the newest by the client's."""
    token = _token_row(plain, address)
    since = first_id_at(timezone.now() - TOLD_FOR)
    own = UsageRecord.objects.filter(token_id=token.pk, id__gte=since)
    found = of_request(own, asked_id)
    if found is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no such request was made with this client token lately")
    attempts = list(own.filter(request_id=found.request_id).order_by("attempt").values(*ATTEMPT_COLUMNS))
    return {"request_id": found.request_id, "client_request_id": found.client_request_id, "attempts": attempts}


async def scope_of_asker(request: HttpRequest) -> Scope:
    """Return what the asker may see.

    Raises:
        Refused: Nobody is logged in, or the token may not read usage.
    """
    if token := _sent_token(request):
        return await sync_to_async(_scope_of_token)(token, address_of(request))
    user = await request.auser()
    if not user.is_authenticated:
        raise Refused(HTTPStatus.UNAUTHORIZED, "log in, or send a client token")
    return await sync_to_async(scope_of)(user)


def _sent_token(request: HttpRequest) -> str:
    sent = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    return sent.strip()


def _scope_of_token(plain: str, address: str) -> Scope:
    row = _token_row(plain, address)
    if READ_SCOPE not in row.scopes:
        raise Refused(HTTPStatus.FORBIDDEN, f"the client token lacks the scope {READ_SCOPE}")
    return scope_of(row.user)


def _token_row(plain: str, address: str) -> ClientToken:
    row = None
    if is_well_formed(plain):
        alive = ClientToken.objects.filter(revoked_at=None, expires_at__gt=timezone.now(), user__is_active=True)
        row = alive.select_related("user").filter(digest=digest(plain)).first()
    if row is None:
        raise Refused(HTTPStatus.UNAUTHORIZED, "the client token is unknown")
    if not admits(networks_of(row.networks), address):
        raise Refused(HTTPStatus.FORBIDDEN, f"the client token may not be used from {address}")
    return row


def _page(words: Mapping[str, str]) -> tuple[UUID | None, int]:
    try:
        after = UUID(words["after"]) if words.get("after") else None
        limit = int(words.get("limit") or PAGE_DEFAULT)
    except ValueError as exc:
        msg = "after is a record's id, limit a number"
        raise ValueError(msg) from exc
    return after, min(max(limit, 1), PAGE_MAX)


async def _stream(response: StreamingHttpResponse, question: Question, name: str) -> HttpResponseBase:
    # A download's progress can be told by it: records settled in those days.
    response["x-estimated-records"] = str(await sync_to_async(attempts_in)(question))
    return _download(response, name)


def _download(response: HttpResponseBase, name: str) -> HttpResponseBase:
    response["content-disposition"] = f'attachment; filename="{name}"'
    response["cache-control"] = "no-store"
    return response


def _refusal(refusal: Refused | ValueError) -> HttpResponse:
    status = refusal.status if isinstance(refusal, Refused) else HTTPStatus.BAD_REQUEST
    return _json({"error": str(refusal)}, status=status)


def _json(body: dict[str, Any], status: int = HTTPStatus.OK) -> HttpResponse:
    response = HttpResponse(orjson.dumps(body), content_type="application/json", status=status)
    response["cache-control"] = "no-store"
    return response
