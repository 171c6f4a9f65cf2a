"""What the live strip shows, as one statement that a page and the live feed both ask.

Records that started more than a day ago count as neither open nor failed: the bound on the id keeps each part to
a few steps in an index, however large the ledger is.
"""
# ruff: noqa: S608  (nothing but ids, times and names of our own goes into the statement)

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from keys.ring import key_ring
from usage.ids import first_id_at
from usage.rollups import ALL_TOKENS
from usage.states import ERROR_STATES
from usage.visibility import Scope

RECENT = timedelta(days=1)
ERRORS_SHOWN = 5
_ERRORS = ", ".join(f"'{state.value}'" for state in ERROR_STATES)
#: States of credentials, the good ones first; others come behind.
CREDENTIAL_STATES = (
    "ready", "on trial", "draining", "cooling", "ejected", "quarantined", "undecryptable", "no secret", "disabled",
)  # fmt: skip


def glance(scope: Scope) -> dict[str, Any]:
    """Ask through Django's connection: what a page shows before the feed takes over."""
    with connection.cursor() as cursor:
        cursor.execute(statement(scope, timezone.now(), key_ring().keys))
        values: dict[str, Any] = cursor.fetchone()[0]
    return tidy(values)


def tidy(values: dict[str, Any]) -> dict[str, Any]:
    """Put the states of credentials into their order."""
    places = {state: place for place, state in enumerate(CREDENTIAL_STATES)}
    counts = values["credentials"].items()
    return values | {"credentials": dict(sorted(counts, key=lambda pair: (places.get(pair[0], 99), pair[0])))}


def statement(scope: Scope, now: datetime, encryption_key_ids: Collection[str]) -> str:
    """Write the statement; its answer is one row with one JSON object. The text changes once an hour.

    Args:
        scope: Whose usage counts.
        encryption_key_ids: Secrets sealed under other keys can't be opened.
    """
    hour = now.replace(minute=0, second=0, microsecond=0)
    recent = f"id >= '{first_id_at(hour - RECENT)}' AND {scope.condition()}"
    midnight = f"{hour.replace(hour=0):%Y-%m-%d} 00:00+00"
    return f"""
    SELECT json_build_object(
        'in_flight', (SELECT count(*) FROM usage_usagerecord WHERE state = 'open' AND {recent}),
        'today', (
            SELECT json_build_object(
                'requests', coalesce(sum(requests), 0)::bigint,
                'tokens', coalesce(sum({ALL_TOKENS}), 0)::bigint,
                'errors', coalesce(sum(attempts) FILTER (WHERE state IN ({_ERRORS})), 0)::bigint,
                'cost_nano', coalesce(sum(cost_nano), 0)::bigint)
            FROM usage_usagehour WHERE hour >= '{midnight}' AND {scope.condition()}),
        'last_errors', (
            SELECT coalesce(json_agg(last ORDER BY last.id DESC), '[]') FROM ({_last_errors(recent)}) AS last),
        'credentials', (
            SELECT coalesce(json_object_agg(standing, n), '{{}}') FROM (
                SELECT {_standing(encryption_key_ids)} AS standing, count(*) AS n
                FROM keys_credential AS c
                LEFT JOIN keys_credentialstate AS s ON s.credential_id = c.id AND s.model_name = ''
                GROUP BY standing) AS counted))"""


def _last_errors(recent: str) -> str:
    """Write the newest failed records: a few of each state, so that each is a short walk along its index."""
    columns = "id, request_id, started_at, user_name, upstream_model, credential_label, state, error_type, http_status"
    newest = " UNION ALL ".join(
        f"(SELECT {columns} FROM usage_usagerecord WHERE state = '{state.value}' AND {recent}"
        f" ORDER BY id DESC LIMIT {ERRORS_SHOWN})"
        for state in ERROR_STATES
    )
    return f"SELECT * FROM ({newest}) AS newest ORDER BY id DESC LIMIT {ERRORS_SHOWN}"


def _standing(encryption_key_ids: Collection[str]) -> str:
    """Write a credential's state in words, as `keys.standing` says it."""
    known = ", ".join(f"'{key_id}'" for key_id in sorted(encryption_key_ids))
    return f"""CASE
        WHEN NOT c.enabled THEN 'disabled'
        WHEN c.sealed_secret = '' THEN 'no secret'
        WHEN split_part(c.sealed_secret, '.', 2) NOT IN ({known}) THEN 'undecryptable'
        WHEN coalesce(s.state, 'ready') = 'ready' THEN CASE WHEN c.draining THEN 'draining' ELSE 'ready' END
        WHEN s.until IS NULL OR s.until > now() THEN s.state
        WHEN s.cause = 'rate_limit' THEN 'ready'
        ELSE 'on trial' END"""
