"""Entries from rows, for what happens outside the directory."""

from keys.entries import CredentialEntry, UpstreamEntry
from keys.models import Credential, Upstream
from keys.ring import key_ring
from keys.snapshot import credential_entry


def upstream_of(row: Upstream) -> UpstreamEntry:
    """Return the upstream as the directory would hold it."""
    return UpstreamEntry(
        id=row.pk,
        name=row.name,
        dialect=row.dialect,
        base_url=row.base_url,
        profile=row.profile,
        profile_overrides=row.profile_overrides,
        connect_timeout_s=row.connect_timeout_s,
        first_byte_timeout_s=row.first_byte_timeout_s,
        idle_timeout_s=row.idle_timeout_s,
        total_timeout_s=row.total_timeout_s,
    )


def credential_of(row: Credential) -> CredentialEntry:
    """Return the credential as the directory would hold it, with its secret opened."""
    names = (
        "id", "upstream_id", "label", "last_four", "enabled", "draining", "priority", "weight", "rpm", "tpm",
        "concurrency", "sealed_secret",
    )  # fmt: skip
    return credential_entry({name: getattr(row, name) for name in names}, key_ring())
