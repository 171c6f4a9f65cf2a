"""The ledger's SQL. Each statement takes a whole batch as one JSON array of rows."""
# ruff: noqa: S608  (statements are built from the tables of columns below, never from input)

from usage.histogram import BOUNDS_MS, BUCKETS

_OPEN_COLUMNS = {
    "id": "uuid",
    "request_id": "text",
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
    "stream": "boolean",
}
_TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens")
_SETTLED_COLUMNS = {
    "state": "text",
    "source": "text",
    **dict.fromkeys(_TOKENS, "bigint"),
    "http_status": "smallint",
    "error_type": "text",
    "stop_reason": "text",
    "ttft_ms": "integer",
    "duration_ms": "integer",
    "notes": "text[]",
}
_GROUPS = (
    "user_id",
    "user_name",
    "team_id",
    "team_name",
    "token_id",
    "token_name",
    "alias",
    "upstream_id",
    "upstream_name",
    "upstream_model",
    "credential_id",
    "credential_label",
    "client_name",
    "client_version",
    "state",
    "error_type",
)
# Nothing was sent for a refused attempt: its zeros are exact.
_NOT_COUNTED = "source <> 'upstream' AND state <> 'refused'"
_SUMS = {
    "requests": "count(*) FILTER (WHERE attempt = 1)",
    "attempts": "count(*)",
    "streams": "count(*) FILTER (WHERE stream)",
    "estimated": f"count(*) FILTER (WHERE {_NOT_COUNTED})",
    "estimated_tokens": f"coalesce(sum(all_tokens) FILTER (WHERE {_NOT_COUNTED}), 0)",
    "unpriced": "count(*) FILTER (WHERE cost_nano IS NULL AND all_tokens > 0)",
    **{name: f"sum({name})" for name in _TOKENS},
    "cost_nano": "coalesce(sum(cost_nano), 0)",
}
_HISTOGRAMS = {"ttft_histogram": "ttft_ms", "duration_histogram": "duration_ms"}


def _declared(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _bucket(column: str) -> str:
    """Number the bucket of a time, from 1; NULL stays NULL. A bound belongs to the bucket below it."""
    return f"width_bucket({column} - 1, ARRAY[{', '.join(map(str, BOUNDS_MS))}]) + 1"


def _counted(bucket: str, sign: str) -> str:
    return f"ARRAY[{', '.join(f'({sign}count(*) FILTER (WHERE {bucket} = {n}))::int' for n in range(1, BUCKETS + 1))}]"


def _added(column: str) -> str:
    pairs = f"unnest(h.{column}, excluded.{column}) WITH ORDINALITY AS pair(a, b, place)"
    return f"{column} = ARRAY(SELECT coalesce(a, 0) + coalesce(b, 0) FROM {pairs} ORDER BY place)"


def _rollup(source: str, sign: str) -> str:
    """Write the upsert that adds the records of `source` to their hours, or takes them out with the sign `-`."""
    columns = ", ".join(("hour", "key", *_GROUPS, *_SUMS, *_HISTOGRAMS))
    sums = ", ".join(f"{sign}{expression}" for expression in _SUMS.values())
    histograms = ", ".join(_counted(f"{column}_bucket", sign) for column in _HISTOGRAMS.values())
    updates = ", ".join([f"{name} = h.{name} + excluded.{name}" for name in _SUMS] + [_added(c) for c in _HISTOGRAMS])
    # One order of locking for all writers: sorted by hour and key.
    return f"""
    INSERT INTO usage_usagehour AS h ({columns})
    SELECT hour, key, {", ".join(_GROUPS)}, {sums}, {histograms}
    FROM (
        SELECT *, date_trunc('hour', started_at, 'UTC') AS hour, md5(ROW({", ".join(_GROUPS)})::text)::uuid AS key,
            {" + ".join(_TOKENS[:-1])} AS all_tokens,
            {", ".join(f"{_bucket(column)} AS {column}_bucket" for column in _HISTOGRAMS.values())}
        FROM {source}
    ) AS record
    GROUP BY hour, key, {", ".join(_GROUPS)}
    ORDER BY hour, key
    ON CONFLICT (hour, key) DO UPDATE SET {updates}"""


def cost_expression(t: str, p: str) -> str:
    """Write the cost in 1e-9 USD of the tokens of row `t` at price `p` (in 1e-12 USD per token), rounded once."""
    return f"""round((
        {t}.input_tokens::numeric * {p}.input_price
        + {t}.cache_read_tokens::numeric * coalesce({p}.cache_read_price, {p}.input_price)
        + {t}.cache_write_tokens::numeric * coalesce({p}.cache_write_price, {p}.input_price)
        + ({t}.output_tokens - {t}.thinking_tokens)::numeric * {p}.output_price
        + {t}.thinking_tokens::numeric * coalesce({p}.thinking_price, {p}.output_price)
    ) / 1000)::bigint"""


#: The price in force for record `r`: the upstream's own before the one for any upstream, then the newest.
PRICE_OF_RECORD = """FROM usage_price AS p
            WHERE p.upstream_model = r.upstream_model AND (p.upstream_id = r.upstream_id OR p.upstream_id IS NULL)
                AND p.valid_from <= r.started_at
            ORDER BY p.upstream_id IS NULL, p.valid_from DESC LIMIT 1"""

#: (rows, worker): insert open records; returns the ids that are in now. Saying it twice does no harm.
OPEN = f"""
INSERT INTO usage_usagerecord ({", ".join(_OPEN_COLUMNS)}, worker, state, source, error_type, stop_reason, notes,
    {", ".join(_TOKENS)})
SELECT {", ".join(_OPEN_COLUMNS)}, $2, 'open', 'unknown', '', '', '{{}}', 0, 0, 0, 0, 0
FROM json_to_recordset($1::json) AS fresh({_declared(_OPEN_COLUMNS)})
ON CONFLICT (id) DO UPDATE SET worker = excluded.worker
    WHERE usage_usagerecord.worker = excluded.worker AND usage_usagerecord.state = 'open'
RETURNING id"""

#: (rows, lowest id, highest id): settle the records that are still open, price them, add them to their hours.
SETTLE = f"""
WITH done AS (
    UPDATE usage_usagerecord AS r
    SET {", ".join(f"{name} = f.{name}" for name in _SETTLED_COLUMNS)}, settled_at = now(),
        (cost_nano, price_version) = (SELECT {cost_expression("f", "p")}, p.id {PRICE_OF_RECORD})
    FROM json_to_recordset($1::json) AS f(id uuid, {_declared(_SETTLED_COLUMNS)})
    WHERE r.id = f.id AND r.state = 'open' AND r.id BETWEEN $2 AND $3
    RETURNING r.*
), rolled AS ({_rollup("done", "")})
SELECT count(*) FROM done"""
