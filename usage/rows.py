"""What a usage record is opened and settled with, made storable before it enters a batch.

A row is one dictionary of plain values: it goes to Postgres, and to the spool, as the same JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from usage.cleaning import clean_code, clean_id, clean_number, clean_text
from usage.counts import Counts, check_counts
from usage.states import Source, State

NOTES_MAX = 16
NOTE_LENGTH_MAX = 64
MESSAGE_LENGTH_MAX = 500
_TERMINAL = frozenset(State.values) - {State.OPEN.value}

#: Text columns of an open record and their lengths.
OPEN_TEXTS = {
    "request_id": 64,
    "client_request_id": 128,
    "user_name": 150,
    "team_name": 150,
    "token_name": 150,
    "alias": 200,
    "upstream_name": 150,
    "upstream_model": 200,
    "credential_label": 150,
    "client_name": 64,
    "client_version": 32,
    "session_id": 128,
    "agent_id": 64,
    "agent_kind": 64,
}
OPEN_IDS = ("user_id", "team_id", "token_id", "upstream_id", "credential_id")
COUNTS = tuple(field.name for field in fields(Counts))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRecord:
    """An attempt that is about to be sent. Strings may hold anything: they are cleaned on the way in."""

    #: From `new_record_id()`, also the name that settles it.
    id: UUID
    request_id: str
    client_request_id: str = ""
    #: Counts from 1 within the request.
    attempt: int = 1
    user_id: int | None = None
    user_name: str = ""
    team_id: int | None = None
    team_name: str = ""
    token_id: int | None = None
    token_name: str = ""
    #: The model's name as the client sent it.
    alias: str = ""
    upstream_id: int | None = None
    upstream_name: str = ""
    upstream_model: str = ""
    credential_id: int | None = None
    credential_label: str = ""
    client_name: str = ""
    client_version: str = ""
    session_id: str = ""
    agent_id: str = ""
    agent_kind: str = ""
    stream: bool = False
    #: Why this credential: candidates and terms as `keys.pool` saw them; None when nobody chose.
    decision: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How an attempt ended."""

    #: The record's.
    id: UUID
    state: State
    source: Source = Source.UNKNOWN
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    #: What the client allowed; bounds what is believed of the upstream's count.
    max_tokens: int | None = None
    http_status: int | None = None
    error_type: str = ""
    #: What the client was told, already masked.
    error_message: str = ""
    stop_reason: str = ""
    queued_ms: int | None = None
    ttft_ms: int | None = None
    duration_ms: int | None = None
    notes: tuple[str, ...] = ()


def open_row(record: OpenRecord) -> dict[str, Any]:
    """Return the columns of an open record, cleaned."""
    row: dict[str, Any] = {name: clean_text(getattr(record, name), limit) for name, limit in OPEN_TEXTS.items()}
    for name in OPEN_IDS:
        row[name] = clean_id(getattr(record, name))
    row["id"] = str(record.id)
    row["attempt"] = record.attempt
    row["stream"] = bool(record.stream)
    row["decision"] = record.decision
    return row


def settled_row(settlement: Settlement) -> dict[str, Any]:
    """Return the columns of a settled record: cleaned, the counts checked, what was changed noted."""
    counts, source, flags = check_counts(_counts(settlement), settlement.source, max_tokens=settlement.max_tokens)
    state = settlement.state if settlement.state in _TERMINAL else State.UPSTREAM_ERROR
    notes = [clean_code(note, NOTE_LENGTH_MAX) for note in (*flags, *settlement.notes)[:NOTES_MAX]]
    return {
        "id": str(settlement.id),
        "state": str(state),
        "source": str(source) if source in Source.values else Source.UNKNOWN.value,
        "input_tokens": counts.input_tokens,
        "cache_read_tokens": counts.cache_read_tokens,
        "cache_write_tokens": counts.cache_write_tokens,
        "cache_write_1h_tokens": counts.cache_write_1h_tokens,
        "output_tokens": counts.output_tokens,
        "thinking_tokens": counts.thinking_tokens,
        "http_status": clean_number(settlement.http_status, 32_767),
        "error_type": clean_text(settlement.error_type, 64),
        "error_message": clean_text(settlement.error_message, MESSAGE_LENGTH_MAX),
        "stop_reason": clean_text(settlement.stop_reason, 64),
        "queued_ms": clean_number(settlement.queued_ms),
        "ttft_ms": clean_number(settlement.ttft_ms),
        "duration_ms": clean_number(settlement.duration_ms),
        "notes": notes,
    }


def _counts(settlement: Settlement) -> Counts:
    return Counts(**{name: getattr(settlement, name) for name in COUNTS})
