"""One reading of the keys tables, indexed for look-ups that cost no query.

The SQL here is the directory's whole view of the database.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from keys.entries import AliasEntry, CredentialEntry, ModelEntry, RouteEntry, Target, TokenEntry, UpstreamEntry, matches
from keys.networks import networks_of
from keys.secrets import KeyRing, Place, SealingError

#: Changes when any row that the directory reads changes. Columns that change all the time are left out.
FINGERPRINT = """
SELECT string_agg(part, ' ') FROM (
  SELECT concat(count(*), ':', sum(hash_record_extended(t, 0))) AS part FROM keys_upstream t UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(t, 0))) FROM keys_credential t UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(t, 0))) FROM keys_upstreammodel t UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(t, 0))) FROM keys_route t UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(t, 0))) FROM keys_routetarget t UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(t, 0))) FROM auth_group t UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(t, 0))) FROM auth_user_groups t UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(ROW(id, username, is_active), 0))) FROM auth_user UNION ALL
  SELECT concat(count(*), ':', sum(hash_record_extended(
    ROW(id, user_id, name, digest, scopes, networks, rpm, tpm, concurrency, expires_at, revoked_at), 0))) FROM keys_clienttoken
) AS parts
"""
TOKENS = """
SELECT t.digest, t.id, t.name, t.user_id, u.username AS user_name, team.id AS team_id,
       coalesce(team.name, '') AS team_name, t.scopes, t.networks, t.expires_at, t.rpm, t.tpm, t.concurrency
FROM keys_clienttoken t JOIN auth_user u ON u.id = t.user_id
LEFT JOIN LATERAL (
  SELECT g.id, g.name FROM auth_user_groups ug JOIN auth_group g ON g.id = ug.group_id
  WHERE ug.user_id = u.id AND left(g.name, 6) <> 'role: ' ORDER BY g.name LIMIT 1
) team ON true
WHERE t.revoked_at IS NULL AND u.is_active AND t.expires_at > now()
"""
#: Tokens that ended not long ago: who still sends one can be told so on its page. The newest, if there are many.
ENDED = """
SELECT digest, id FROM keys_clienttoken
WHERE (revoked_at IS NOT NULL OR expires_at <= now()) AND least(revoked_at, expires_at) > now() - interval '30 days'
ORDER BY id DESC LIMIT 10000
"""
UPSTREAMS = """
SELECT id, name, dialect, base_url, profile, profile_overrides,
       connect_timeout_s, first_byte_timeout_s, idle_timeout_s, total_timeout_s
FROM keys_upstream WHERE enabled
"""
MODELS = """
SELECT id, upstream_id, name, context_window, max_output_tokens, tools, vision, pdf, reasoning,
       compaction, compact_above, compact_to, summary_alias, continue_rounds
FROM keys_upstreammodel
"""
CREDENTIALS = """
SELECT id, upstream_id, label, last_four, enabled, draining, priority, weight, rpm, tpm, concurrency, sealed_secret
FROM keys_credential ORDER BY id
"""
TARGETS = """
SELECT r.alias, t.position, t.upstream_id, t.upstream_model, t.weight
FROM keys_route r JOIN keys_routetarget t ON t.route_id = r.id
WHERE r.enabled ORDER BY r.alias, t.position, t.id
"""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """A target as stored: what an empty model stands for is known only when a name comes in."""

    position: int
    upstream: UpstreamEntry
    upstream_model: str
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The keys tables at one moment."""

    fingerprint: str = ""
    tokens: Mapping[str, TokenEntry] = field(default_factory=dict, repr=False)
    tokens_by_id: Mapping[int, TokenEntry] = field(default_factory=dict, repr=False)
    #: Ids of tokens that ended not long ago, by digest.
    ended: Mapping[str, int] = field(default_factory=dict, repr=False)
    upstreams: Mapping[int, UpstreamEntry] = field(default_factory=dict)
    models: Mapping[tuple[int, str], ModelEntry] = field(default_factory=dict)
    #: By upstream.
    credentials: Mapping[int, tuple[CredentialEntry, ...]] = field(default_factory=dict)
    exact: Mapping[str, tuple[TargetRow, ...]] = field(default_factory=dict)
    #: Longest first.
    patterns: tuple[tuple[str, tuple[TargetRow, ...]], ...] = ()

    @property
    def undecryptable(self) -> int:
        """How many credentials the ring didn't open."""
        return sum(entry.defect == "undecryptable" for group in self.credentials.values() for entry in group)

    def resolve(self, alias: str) -> RouteEntry | None:
        """Find the exact alias, else the longest pattern that fits; None when nothing does."""
        rows = self.exact.get(alias) or next((rows for name, rows in self.patterns if matches(name, alias)), None)
        if rows is None:
            return None
        first = rows[0].position
        return RouteEntry(
            alias=alias,
            targets=tuple(self._target(row, alias) for row in rows if row.position == first),
            fallbacks=tuple(self._target(row, alias) for row in rows if row.position > first),
        )

    def aliases(self) -> tuple[AliasEntry, ...]:
        """List the names that clients may send, by name."""
        everything = [*self.exact.items(), *self.patterns]
        return tuple(self._alias(name, rows) for name, rows in sorted(everything, key=lambda item: item[0]))

    def _target(self, row: TargetRow, alias: str) -> Target:
        name = row.upstream_model or alias
        model = self.models.get((row.upstream.id, name))
        return Target(upstream=row.upstream, model_name=name, model=model, weight=row.weight)

    def _alias(self, name: str, rows: tuple[TargetRow, ...]) -> AliasEntry:
        model = self._target(rows[0], name).model
        return AliasEntry(
            name=name,
            is_pattern=name.endswith("*"),
            context_window=model.context_window if model else None,
            max_output_tokens=model.max_output_tokens if model else None,
        )


async def load_snapshot(connection: psycopg.AsyncConnection[Any], ring: KeyRing) -> Snapshot:
    """Read all of it in one transaction, so that the parts fit together."""
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        fingerprint = await read_fingerprint(connection)
        upstreams = {row["id"]: UpstreamEntry(**row) for row in await _rows(connection, UPSTREAMS)}
        models = {(row["upstream_id"], row["name"]): ModelEntry(**row) for row in await _rows(connection, MODELS)}
        credentials = await _rows(connection, CREDENTIALS)
        targets = await _rows(connection, TARGETS)
        tokens = await _rows(connection, TOKENS)
        ended = {row["digest"]: row["id"] for row in await _rows(connection, ENDED)}
    by_digest = {row.pop("digest"): _token(row) for row in tokens}
    routes = _routes(targets, upstreams)
    patterns = sorted((item for item in routes.items() if item[0].endswith("*")), key=lambda item: -len(item[0]))
    return Snapshot(
        fingerprint=fingerprint,
        tokens=by_digest,
        tokens_by_id={entry.id: entry for entry in by_digest.values()},
        ended=ended,
        upstreams=upstreams,
        models=models,
        credentials=_by_upstream([credential_entry(row, ring) for row in credentials]),
        exact={alias: rows for alias, rows in routes.items() if not alias.endswith("*")},
        patterns=tuple(patterns),
    )


async def read_fingerprint(connection: psycopg.AsyncConnection[Any]) -> str:
    """Return a text that changes with the tables; cheap enough to ask for every second or two."""
    cursor = await connection.execute(FINGERPRINT)
    row = await cursor.fetchone()
    return str(row[0]) if row else ""


def _token(row: Row) -> TokenEntry:
    return TokenEntry(**row | {"scopes": tuple(row["scopes"]), "networks": networks_of(row["networks"])})


def credential_entry(row: Row, ring: KeyRing) -> CredentialEntry:
    """Make an entry, opening the secret; one that doesn't open is marked and carries none."""
    sealed = row.pop("sealed_secret")
    if not sealed:
        return CredentialEntry(**row, defect="no_secret")
    try:
        opened = ring.unseal(sealed, secret_place(row["id"]))
    except SealingError:
        return CredentialEntry(**row, defect="undecryptable")
    return CredentialEntry(**row, sealed_in=sealed, opened=opened)


def secret_place(credential_id: int) -> Place:
    """Name the place of a credential's secret, for its associated data."""
    return Place(table="keys_credential", pk=credential_id, field="sealed_secret")


def _routes(rows: list[Row], upstreams: Mapping[int, UpstreamEntry]) -> dict[str, tuple[TargetRow, ...]]:
    """Group the targets by alias, leaving out those of disabled upstreams."""
    routes: dict[str, tuple[TargetRow, ...]] = {}
    for row in rows:
        if (upstream := upstreams.get(row["upstream_id"])) is None:
            continue
        target = TargetRow(
            position=row["position"], upstream=upstream, upstream_model=row["upstream_model"], weight=row["weight"]
        )
        routes[row["alias"]] = (*routes.get(row["alias"], ()), target)
    return routes


def _by_upstream(entries: list[CredentialEntry]) -> dict[int, tuple[CredentialEntry, ...]]:
    grouped: dict[int, list[CredentialEntry]] = {}
    for entry in entries:
        grouped.setdefault(entry.upstream_id, []).append(entry)
    return {upstream_id: tuple(group) for upstream_id, group in grouped.items()}


async def _rows(connection: psycopg.AsyncConnection[Any], query: str) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query.encode())
        return await cursor.fetchall()
