"""Which sessions of agents used most: read from the records, since sums per session would be as many as these."""
# ruff: noqa: S608  (statements are built from our own words; what was asked for goes in as parameters)

from datetime import timedelta
from typing import Any

from django.db import connection

from usage.ids import first_id_at
from usage.periods import CLOCK_SLACK
from usage.reports import TOKEN_KINDS, Question, kept
from usage.states import ERROR_STATES

#: A week of a busy team's records is summed in a tenth of a second.
DAYS_MAX = 7
ROWS_MAX = 200

# Any name will do: compared as bytes, the greatest is found in half the time that the database's language takes.
_FACTS = {
    "session": "session_id",
    "user_id": "max(user_id)",
    "user": 'max(user_name COLLATE "C")',
    "client": 'max(client_name COLLATE "C")',
    "version": 'max(client_version COLLATE "C")',
    "started_at": "min(started_at)",
    "ended_at": "max(settled_at)",
    "requests": "count(*) FILTER (WHERE attempt = 1)",
    "attempts": "count(*)",
    "errors": f"count(*) FILTER (WHERE state IN ({', '.join(repr(state.value) for state in ERROR_STATES)}))",
    **{kind: f"sum({kind})::bigint" for kind in TOKEN_KINDS},
    "cost_nano": "coalesce(sum(cost_nano), 0)::bigint",
    "unpriced": "count(*) FILTER (WHERE cost_nano IS NULL)",
}
SESSION_COLUMNS = tuple(_FACTS)


def sessions(question: Question) -> list[dict[str, Any]]:
    """Sum up the sessions of a question's time, the largest first. Its groups don't matter.

    Raises:
        ValueError: The time is longer than `DAYS_MAX` days.
    """
    if question.end - question.start > timedelta(days=DAYS_MAX):
        msg = f"sessions can be shown of {DAYS_MAX} days at most"
        raise ValueError(msg)
    where, places = kept(question)
    statement = f"""
        SELECT {", ".join(_FACTS.values())} FROM usage_usagerecord
        WHERE id >= %s AND id < %s AND started_at >= %s AND started_at < %s
            AND session_id <> '' AND state <> 'open' {where}
        GROUP BY token_id, session_id
        ORDER BY sum(input_tokens + cache_read_tokens + cache_write_tokens + output_tokens) DESC
        LIMIT {ROWS_MAX}"""
    bounds = [first_id_at(question.start - CLOCK_SLACK), first_id_at(question.end + CLOCK_SLACK)]
    with connection.cursor() as cursor:
        cursor.execute(statement, [*bounds, question.start, question.end, *places])
        return [dict(zip(_FACTS, values, strict=True)) for values in cursor.fetchall()]
