"""SQL that adds settled records to the sums of their hour and day, or takes them out again.

Sums by member leave the credential out, sums by credential leave the members out: each stays small however many
of both there are. Questions about both at once go to a table of their own, which keeps no times.
"""
# ruff: noqa: S608  (statements are built from the tables of columns below, never from input)

from dataclasses import dataclass

from usage.histogram import BOUNDS_MS, BUCKETS

TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens")
#: Every token once: thinking ones are among the output.
ALL_TOKENS = " + ".join(TOKENS[:-1])

_MEMBER = ("user_id", "user_name", "team_id", "team_name", "token_id", "token_name", "alias")
_UPSTREAM = ("upstream_id", "upstream_name", "upstream_model")
_CREDENTIAL = ("credential_id", "credential_label")
_CLIENT = ("client_name", "client_version")
_END = ("state", "error_type")

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
#: The places of a histogram's buckets, as Postgres counts them.
PLACES = range(1, BUCKETS + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """A table of sums, and what tells its rows apart."""

    table: str
    #: "hour" or "day": the length of its spans, and the column of their first moment.
    span: str
    groups: tuple[str, ...]
    has_histograms: bool = True

    @property
    def key(self) -> str:
        """SQL for the hash of the columns that tell rows apart."""
        return f"md5(ROW({', '.join(self.groups)})::text)::uuid"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.span, *self.groups, *SUMS, *self.histograms)

    @property
    def histograms(self) -> tuple[str, ...]:
        return tuple(HISTOGRAMS) if self.has_histograms else ()


HOURS = Rollup(table="usage_usagehour", span="hour", groups=(*_MEMBER, *_UPSTREAM, *_CLIENT, *_END))
DAYS = Rollup(table="usage_usageday", span="day", groups=HOURS.groups)
CREDENTIAL_DAYS = Rollup(table="usage_credentialday", span="day", groups=(*_UPSTREAM, *_CREDENTIAL, *_END))
CROSSED_DAYS = Rollup(
    table="usage_crossedday",
    span="day",
    groups=(*_MEMBER, *_UPSTREAM, *_CREDENTIAL, *_CLIENT, *_END),
    has_histograms=False,
)
ROLLUPS = (HOURS, DAYS, CREDENTIAL_DAYS, CROSSED_DAYS)


def keyed(source: str) -> str:
    """Write a query for the records of `source`, with their hour and day and the buckets of their times."""
    spans = ", ".join(f"date_trunc('{span}', started_at, 'UTC') AS {span}" for span in ("hour", "day"))
    buckets = ", ".join(f"{_bucket(column)} AS {column}_bucket" for column in HISTOGRAMS.values())
    return f"SELECT *, {ALL_TOKENS} AS all_tokens, {spans}, {buckets} FROM {source}"


def _summed(rollup: Rollup, sign: str = "") -> str:
    """Write a query for the `rollup.columns` of the records of `keyed`; `-` makes the sums negative."""
    sums = [f"{sign}{expression} AS {name}" for name, expression in SUMS.items()]
    sums += [f"{_counted(f'{HISTOGRAMS[name]}_bucket', sign)} AS {name}" for name in rollup.histograms]
    groups = ", ".join((rollup.span, *rollup.groups))
    return f"SELECT {', '.join((groups, *sums))} FROM keyed GROUP BY {groups}"


def rolled(source: str, sign: str = "") -> str:
    """Write the common table expressions that add the records of `source` to all sums; `-` takes them out."""
    upserts = (f"into_{rollup.table} AS ({_upsert(rollup, sign)})" for rollup in ROLLUPS)
    return ",\n".join([f"keyed AS ({keyed(source)})", *upserts])


def _upsert(rollup: Rollup, sign: str) -> str:
    updates = [f"{name} = h.{name} + excluded.{name}" for name in SUMS] + [_added(c) for c in rollup.histograms]
    columns = ", ".join(rollup.columns)
    # One order of locking for all writers: sorted by time and key.
    return f"""
    INSERT INTO {rollup.table} AS h (key, {columns})
    SELECT {rollup.key} AS key, {columns} FROM ({_summed(rollup, sign)}) AS s ORDER BY {rollup.span}, 1
    ON CONFLICT ({rollup.span}, key) DO UPDATE SET {", ".join(updates)}"""


def _bucket(column: str) -> str:
    """Number the bucket of a time, from 1; NULL stays NULL. A bound belongs to the bucket below it."""
    return f"width_bucket({column} - 1, ARRAY[{', '.join(map(str, BOUNDS_MS))}]) + 1"


def _counted(bucket: str, sign: str) -> str:
    return f"ARRAY[{', '.join(f'({sign}count(*) FILTER (WHERE {bucket} = {n}))::int' for n in PLACES)}]"


def _added(column: str) -> str:
    pairs = f"unnest(h.{column}, excluded.{column}) WITH ORDINALITY AS pair(a, b, place)"
    return f"{column} = ARRAY(SELECT coalesce(a, 0) + coalesce(b, 0) FROM {pairs} ORDER BY place)"
