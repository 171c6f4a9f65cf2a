"""Usage for the tests of pages: records and the sums that the ledger would have kept."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from keys.models import ClientToken
from keys.roles import team_of
from tests.usage.people import add_sums
from usage.ids import first_id_at, new_record_id
from usage.models import UsageRecord
from usage.partitions import make_partitions

NAMES = {"upstream_name": "acme", "upstream_model": "m", "credential_label": "key-1", "client_version": "2.1"}


def add_record(
    user: User, token: ClientToken | None = None, *, age: timedelta = timedelta(), **more: Any
) -> UsageRecord:
    """Settle one attempt of a user's, and count it in the sums of its hour and day."""
    moment = datetime.now(UTC) - age
    make_partitions(connection, moment, months_ahead=1)
    record_id = new_record_id()
    if age:
        record_id = type(record_id)(int=first_id_at(moment).int | record_id.int & (1 << 80) - 1)
    values = {
        "request_id": f"req_{record_id.hex}",
        "user_id": user.pk,
        "user_name": user.username,
        "team_id": team_of(user),
        "token_id": token.pk if token else None,
        "token_name": token.name if token else "",
        "alias": "claude-sonnet-4-5",
        "client_name": "claude-cli",
        "state": "ok",
        "input_tokens": 100,
        "output_tokens": 10,
        "cost_nano": 1_000_000,
        "duration_ms": 100,
        **NAMES,
        **more,
    }
    record = UsageRecord.objects.create(id=record_id, started_at=moment, settled_at=moment, **values)
    hour = moment.replace(minute=0, second=0, microsecond=0)
    shared = ("user_id", "user_name", "team_id", "token_id", "token_name", "alias", "client_name", "state")
    sums = {name: values[name] for name in (*shared, "input_tokens", "output_tokens", "cost_nano", *NAMES)}
    sums |= {name: values.get(name, 0) for name in ("cache_read_tokens", "cache_write_tokens")}
    sums |= {"requests": 1, "attempts": 1, "ttft_histogram": [], "duration_histogram": []}
    add_sums(hour, sums)
    return record
