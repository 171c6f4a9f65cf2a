"""The ledger's SQL. Each statement takes a whole batch as one JSON array of rows."""
# ruff: noqa: S608  (statements are built from the tables of columns below, never from input)

from usage.rollups import TOKENS, rolled

_OPEN_COLUMNS = {
    "id": "uuid",
    "request_id": "text",
    "client_request_id": "text",
    "attempt": "integer",
    "user_id": "bigint",
    "user_name": "text",
    "team_id": "bigint",
    "team_name": "text",
    "token_id": "bigint",
    "token_name": "text",
    "alias": "text",
    "upstream_id": "bigint",
    "upstream_name": "text",
    "upstream_model": "text",
    "credential_id": "bigint",
    "credential_label": "text",
    "client_name": "text",
    "client_version": "text",
    "session_id": "text",
    "agent_id": "text",
    "agent_kind": "text",
    "stream": "boolean",
    "decision": "jsonb",
}
_SETTLED_COLUMNS = {
    "state": "text",
    "source": "text",
    **dict.fromkeys(TOKENS, "bigint"),
    "cache_write_1h_tokens": "bigint",
    "http_status": "smallint",
    "error_type": "text",
    "error_message": "text",
    "stop_reason": "text",
    "queued_ms": "integer",
    "ttft_ms": "integer",
    "duration_ms": "integer",
    "notes": "text[]",
}


def _declared(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


#: What a spool that an earlier version wrote doesn't have.
_SINCE = {"error_message": "''", "cache_write_1h_tokens": "0"}


def _settled(name: str) -> str:
    return f"coalesce(f.{name}, {_SINCE[name]})" if name in _SINCE else f"f.{name}"


def cost_expression(t: str, p: str) -> str:
    """Write the cost in 1e-9 USD of the tokens of row `t` at price `p` (in 1e-12 USD per token), rounded once.

    Where the input is longer than `long_above`, its kinds without a long price cost as much more as input does.
    """
    is_long = f"{t}.input_tokens + {t}.cache_read_tokens + {t}.cache_write_tokens > {p}.long_above"
    written = f"coalesce({p}.cache_write_price, {p}.input_price)"
    shorts = {
        "input": f"{p}.input_price",
        "cache_read": f"coalesce({p}.cache_read_price, {p}.input_price)",
        "cache_write": written,
        "cache_write_1h": f"coalesce({p}.cache_write_1h_price, {written})",
    }
    # Of an input that is free no part can be told.
    dearer = f"coalesce({p}.long_input_price / nullif({p}.input_price, 0)::numeric, 1)"
    at = {
        kind: f"CASE WHEN {is_long} THEN coalesce({p}.long_{kind}_price, {short} * {dearer}) ELSE {short} END"
        for kind, short in shorts.items()
    }
    long_output = f"CASE WHEN {is_long} THEN {p}.long_output_price END"
    for_an_hour = f"coalesce({t}.cache_write_1h_tokens, 0)"
    return f"""round((
        {t}.input_tokens::numeric * {at["input"]}
        + {t}.cache_read_tokens::numeric * {at["cache_read"]}
        + ({t}.cache_write_tokens - {for_an_hour})::numeric * {at["cache_write"]}
        + {for_an_hour}::numeric * {at["cache_write_1h"]}
        + ({t}.output_tokens - {t}.thinking_tokens)::numeric * coalesce({long_output}, {p}.output_price)
        + {t}.thinking_tokens::numeric * coalesce({long_output}, {p}.thinking_price, {p}.output_price)
    ) / 1000)::bigint"""


def price_of_record(t: str) -> str:
    """Write where the price `p` of record `r` comes from: its upstream's own before any upstream's, then the newest.

    Tokens that nobody counted (source of `t` unknown) have no cost, rather than none of it.
    """
    return f"""FROM usage_price AS p
            WHERE p.upstream_model = r.upstream_model AND (p.upstream_id = r.upstream_id OR p.upstream_id IS NULL)
                AND p.valid_from <= r.started_at AND {t}.source <> 'unknown'
            ORDER BY p.upstream_id IS NULL, p.valid_from DESC LIMIT 1"""


#: (rows, worker): insert open records; returns the ids that are in now. Saying it twice does no harm.
OPEN = f"""
INSERT INTO usage_usagerecord ({", ".join(_OPEN_COLUMNS)}, worker, state, source, error_type, stop_reason, notes,
    {", ".join(TOKENS)})
SELECT {", ".join(_OPEN_COLUMNS)}, $2, 'open', 'unknown', '', '', '{{}}', 0, 0, 0, 0, 0
FROM json_to_recordset($1::json) AS fresh({_declared(_OPEN_COLUMNS)})
ON CONFLICT (id) DO UPDATE SET worker = excluded.worker
    WHERE usage_usagerecord.worker = excluded.worker AND usage_usagerecord.state = 'open'
RETURNING id"""


def _booked(releases: str) -> str:
    """Write the expressions that book the records of `done` on their budgets and release reservations.

    A record is booked in the period in which it is settled. What a running request holds survives the period.
    """
    return f"""
released AS (DELETE FROM usage_reservation WHERE {releases} RETURNING budget_id, amount),
moves AS (
    SELECT budget_id, sum(spent) AS spent, sum(released) AS released
    FROM (
        SELECT b.id AS budget_id, 0 AS released,
            CASE b.unit WHEN 'usd' THEN coalesce(d.cost_nano, 0) ELSE d.all_tokens END AS spent
        FROM keyed AS d
        CROSS JOIN LATERAL (VALUES ('token', d.token_id), ('user', d.user_id), ('team', d.team_id)) AS s(kind, id)
        JOIN usage_budget AS b
            ON b.subject = s.kind AND b.subject_id = s.id AND usage_is_for(b.aliases, d.alias)
        UNION ALL SELECT budget_id, amount, 0 FROM released
    ) AS move GROUP BY budget_id
),
locked AS (SELECT id FROM usage_budget WHERE id IN (SELECT budget_id FROM moves) ORDER BY id FOR UPDATE),
booked AS (
    UPDATE usage_budget AS b
    SET spent = CASE WHEN b.period_start < usage_period_start(b.period, b.period_start) THEN 0 ELSE b.spent END
            + m.spent,
        warned_percent = CASE WHEN b.period_start < usage_period_start(b.period, b.period_start) THEN 0
            ELSE b.warned_percent END,
        period_start = greatest(b.period_start, usage_period_start(b.period, b.period_start)),
        reserved = greatest(b.reserved - m.released, 0)
    FROM moves AS m JOIN locked AS l ON l.id = m.budget_id WHERE b.id = l.id
)"""


#: (rows, lowest id, highest id, admissions): settle the records that are still open, price them, add them to their
#: sums, book them on their budgets, and release what the admissions hold.
SETTLE = f"""
WITH done AS (
    UPDATE usage_usagerecord AS r
    SET {", ".join(f"{name} = {_settled(name)}" for name in _SETTLED_COLUMNS)}, settled_at = now(),
        (cost_nano, price_version) = (SELECT {cost_expression("f", "p")}, p.id {price_of_record("f")})
    FROM json_to_recordset($1::json) AS f(id uuid, {_declared(_SETTLED_COLUMNS)})
    WHERE r.id = f.id AND r.state = 'open' AND r.id BETWEEN $2 AND $3
    RETURNING r.*
), {rolled("done")}, {_booked("admission = ANY($4::uuid[])")}
SELECT count(*) FROM done"""

#: (ids): open the records again that were given up as lost: their end is known after all. `SETTLE` comes next.
REOPEN = f"""
WITH lost AS (
    SELECT * FROM usage_usagerecord WHERE id = ANY($1::uuid[]) AND state = 'lost' FOR UPDATE
), reopened AS (
    UPDATE usage_usagerecord AS r SET state = 'open', settled_at = NULL FROM lost WHERE r.id = lost.id RETURNING r.id
), {rolled("lost", "-")}
SELECT count(*) FROM reopened"""

#: (admissions, worker): reserve for each of them from all its budgets or from none; see the migration. Answers with the
#: budget that has no room, and what of it was not spent when the statement began.
RESERVE = """
SELECT r.admission, r.refused_by, greatest(b."limit" - CASE
    WHEN b.period_start < usage_period_start(b.period, b.period_start) THEN 0 ELSE b.spent END, 0)
FROM usage_reserve($1::json, $2) AS r LEFT JOIN usage_budget AS b ON b.id = r.refused_by"""

#: (worker): show that the worker lives.
BEAT = """
INSERT INTO usage_workerlease AS l (worker, beat) VALUES ($1, 1)
ON CONFLICT (worker) DO UPDATE SET beat = l.beat + 1, beat_at = now()"""

#: (): every worker that has a lease or open records, and its beat; -1 without a lease.
LEASES = """
SELECT worker, beat FROM usage_workerlease
UNION ALL SELECT DISTINCT worker, -1::bigint FROM usage_usagerecord AS r
WHERE state = 'open' AND NOT EXISTS (SELECT FROM usage_workerlease AS l WHERE l.worker = r.worker)"""

#: (worker, beat): if its beat still stands there, close a dead worker's open records as lost, release what it
#: reserved, and take its lease away.
LOSE = f"""
WITH standing AS (
    SELECT NOT EXISTS (SELECT FROM usage_workerlease WHERE worker = $1 AND beat <> $2) AS still
), done AS (
    UPDATE usage_usagerecord AS r SET state = 'lost', settled_at = now()
    WHERE r.state = 'open' AND r.worker = $1 AND (SELECT still FROM standing)
    RETURNING r.*
), {rolled("done")}, {_booked("worker = $1 AND (SELECT still FROM standing)")},
gone AS (DELETE FROM usage_workerlease WHERE worker = $1 AND beat = $2)
SELECT count(*) FROM done"""

#: (worker): take the lease of a worker away that ends in order.
LEAVE = "DELETE FROM usage_workerlease WHERE worker = $1"
