"""What the directory holds: rows of the keys app as immutable values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keys.networks import Network, admits


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """A client token that may be used, and its member."""

    id: int
    name: str
    user_id: int
    user_name: str
    #: None when the member belongs to no team.
    team_id: int | None
    team_name: str
    #: Aliases or patterns it may use; empty means all.
    scopes: tuple[str, ...]
    #: Where it may be used; empty means everywhere.
    networks: tuple[Network, ...] = ()
    expires_at: datetime
    rpm: int | None
    tpm: int | None
    concurrency: int | None

    def may_use(self, alias: str) -> bool:
        """Tell whether the scopes let this token send `alias`."""
        return not self.scopes or any(matches(pattern, alias) for pattern in self.scopes)

    def may_come_from(self, address: str) -> bool:
        """Tell whether this token may be used from an address."""
        return admits(self.networks, address)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamEntry:
    """An enabled upstream."""

    id: int
    name: str
    dialect: str
    base_url: str
    profile: str
    profile_overrides: Mapping[str, Any]
    connect_timeout_s: float
    first_byte_timeout_s: float
    idle_timeout_s: float
    total_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """What is known of an upstream model."""

    id: int
    upstream_id: int
    name: str
    context_window: int | None
    max_output_tokens: int | None
    tools: str
    #: None where nobody said.
    vision: bool | None
    pdf: bool | None
    reasoning: bool | None
    #: What becomes of long conversations: off, trim or summary; only with a context window.
    compaction: str = "off"
    #: Percent of the window.
    compact_above: int = 80
    compact_to: int = 40
    #: The alias that writes summaries; empty for the client's own.
    summary_alias: str = ""
    #: How often it may be asked to go on with an answer that it cut short.
    continue_rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialEntry:
    """A credential of an upstream, together with its opened secret."""

    id: int
    upstream_id: int
    label: str
    last_four: str
    enabled: bool
    draining: bool
    priority: int
    weight: int
    rpm: int | None
    tpm: int | None
    concurrency: int | None
    #: Why it can't be used whatever its state: "", "no_secret" or "undecryptable".
    defect: str = ""
    sealed_in: str = field(default="", repr=False)
    opened: str = field(default="", repr=False)

    def secret(self) -> str:
        """Return the plain secret, for the upstream's header and nothing else."""
        if self.defect:
            msg = f"credential {self.id} can't be used: {self.defect}"
            raise LookupError(msg)
        return self.opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An upstream model that a route leads to."""

    upstream: UpstreamEntry
    #: What is sent on: the client's own name where the route leaves it open.
    model_name: str
    #: None when nothing is known of the model.
    model: ModelEntry | None
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteEntry:
    """Where one requested name leads: targets that share the calls, then fallbacks in order."""

    alias: str
    targets: tuple[Target, ...]
    fallbacks: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasEntry:
    """A name that clients may send, for the list of models."""

    name: str
    is_pattern: bool
    context_window: int | None
    max_output_tokens: int | None


def matches(pattern: str, name: str) -> bool:
    """Tell whether `name` is `pattern`, or begins with it where it ends in `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
