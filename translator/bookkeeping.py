"""What an attempt tells the ledger: before it is sent, and when it is over."""

from dataclasses import dataclass
from uuid import UUID

from keys.dispatch import Attempt
from keys.entries import TokenEntry
from translator.calls import Call, Prepared
from translator.core.errors import ClientError
from usage.records import OpenRecord, Settlement
from usage.states import Source, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, and with what, for the usage record."""

    token: TokenEntry
    request_id: str
    client_name: str
    client_version: str
    session_id: str
    #: When the whole request was here, on the loop's clock.
    arrived_at: float
    #: A sub-agent of the session, by the client's own words; empty for the main agent.
    agent_id: str = ""
    agent_kind: str = ""
    #: What was noticed in the request's text.
    notes: tuple[str, ...] = ()
    #: What the client itself calls the request; empty where it doesn't.
    client_request_id: str = ""


def open_record(record_id: UUID, number: int, call: Call, caller: Caller, attempt: Attempt) -> OpenRecord:
    """Return what is known before the send."""
    token = caller.token
    return OpenRecord(
        id=record_id,
        request_id=caller.request_id,
        client_request_id=caller.client_request_id,
        attempt=number,
        user_id=token.user_id,
        user_name=token.user_name,
        team_id=token.team_id,
        team_name=token.team_name,
        token_id=token.id,
        token_name=token.name,
        alias=call.alias,
        upstream_id=attempt.upstream.id,
        upstream_name=attempt.upstream.name,
        upstream_model=attempt.model_name,
        credential_id=attempt.credential.id,
        credential_label=attempt.credential.label,
        client_name=caller.client_name,
        client_version=caller.client_version,
        session_id=caller.session_id,
        agent_id=caller.agent_id,
        agent_kind=caller.agent_kind,
        stream=call.stream,
        decision=attempt.decision,
    )


def settlement_of(
    record_id: UUID,
    state: State,
    prepared: Prepared,
    caller: Caller,
    *,
    max_tokens: int | None,
    http_status: int | None,
    error: ClientError | None,
    queued_ms: int,
    ttft_ms: int | None,
    duration_ms: int,
) -> Settlement:
    """Return how the attempt ended, with the tokens as far as they are known."""
    exchange = prepared.exchange
    usage = exchange.usage
    return Settlement(
        id=record_id,
        state=state,
        source=Source(usage.source.value),
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
        thinking_tokens=usage.thinking_tokens or 0,
        max_tokens=max_tokens,
        stop_reason=exchange.stop_reason or "",
        http_status=http_status,
        error_type=error.type.value if error else "",
        error_message=error.message if error else "",
        queued_ms=queued_ms,
        ttft_ms=ttft_ms,
        duration_ms=duration_ms,
        notes=(*caller.notes, *prepared.notes, *exchange.notes, *usage.notes),
    )
