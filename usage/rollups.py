"""SQL that adds settled records to the sums of their hour and day, or takes them out again."""
# ruff: noqa: S608  (statements are built from the tables of columns below, never from input)

from usage.histogram import BOUNDS_MS, BUCKETS

TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens")
#: Every token once: thinking ones are among the output.
ALL_TOKENS = " + ".join(TOKENS[:-1])
#: The tables of sums: their column of time, which is also the word for its length.
SPANS = {"usage_usagehour": "hour", "usage_usageday": "day"}
GROUPS = (
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
SUMS = {
    "requests": "count(*) FILTER (WHERE attempt = 1)",
    "attempts": "count(*)",
    "streams": "count(*) FILTER (WHERE stream)",
    "estimated": f"count(*) FILTER (WHERE {_NOT_COUNTED})",
    "estimated_tokens": f"coalesce(sum(all_tokens) FILTER (WHERE {_NOT_COUNTED}), 0)",
    "unpriced": "count(*) FILTER (WHERE cost_nano IS NULL AND all_tokens > 0)",
    **{name: f"sum({name})" for name in TOKENS},
    "cost_nano": "coalesce(sum(cost_nano), 0)",
}
HISTOGRAMS = {"ttft_histogram": "ttft_ms", "duration_histogram": "duration_ms"}


def rolled(source: str, sign: str = "") -> str:
    """Write the common table expressions that add the records of `source` to their sums; `-` takes them out."""
    spans = ", ".join(f"date_trunc('{span}', started_at, 'UTC') AS {span}" for span in SPANS.values())
    buckets = ", ".join(f"{_bucket(column)} AS {column}_bucket" for column in HISTOGRAMS.values())
    key = f"md5(ROW({', '.join(GROUPS)})::text)::uuid"
    keyed = f"keyed AS (SELECT *, {key} AS key, {ALL_TOKENS} AS all_tokens, {spans}, {buckets} FROM {source})"
    return ",\n".join([keyed, *(f"by_{span} AS ({_upsert(table, span, sign)})" for table, span in SPANS.items())])


def _upsert(table: str, span: str, sign: str) -> str:
    sums = ", ".join(f"{sign}{expression}" for expression in SUMS.values())
    histograms = ", ".join(_counted(f"{column}_bucket", sign) for column in HISTOGRAMS.values())
    updates = ", ".join([f"{name} = h.{name} + excluded.{name}" for name in SUMS] + [_added(c) for c in HISTOGRAMS])
    # One order of locking for all writers: sorted by time and key.
    return f"""
    INSERT INTO {table} AS h ({", ".join((span, "key", *GROUPS, *SUMS, *HISTOGRAMS))})
    SELECT {span}, key, {", ".join(GROUPS)}, {sums}, {histograms}
    FROM keyed GROUP BY {span}, key, {", ".join(GROUPS)} ORDER BY {span}, key
    ON CONFLICT ({span}, key) DO UPDATE SET {updates}"""


def _bucket(column: str) -> str:
    """Number the bucket of a time, from 1; NULL stays NULL. A bound belongs to the bucket below it."""
    return f"width_bucket({column} - 1, ARRAY[{', '.join(map(str, BOUNDS_MS))}]) + 1"


def _counted(bucket: str, sign: str) -> str:
    return f"ARRAY[{', '.join(f'({sign}count(*) FILTER (WHERE {bucket} = {n}))::int' for n in range(1, BUCKETS + 1))}]"


def _added(column: str) -> str:
    pairs = f"unnest(h.{column}, excluded.{column}) WITH ORDINALITY AS pair(a, b, place)"
    return f"{column} = ARRAY(SELECT coalesce(a, 0) + coalesce(b, 0) FROM {pairs} ORDER BY place)"
