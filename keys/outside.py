"""What this app needs of upstreams but can't do itself, since only the translator opens connections.

The project hands in who does it, at start (`use`).
"""

from dataclasses import dataclass
from typing import Protocol

from keys.entries import CredentialEntry, UpstreamEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """How a small request with one credential went."""

    is_ok: bool
    #: None when there was no answer.
    status: int | None
    duration_ms: int
    #: The upstream's own words, without anything secret; "" when it had none.
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A model as its upstream lists it; None and absent facts are unknown."""

    name: str
    context_window: int | None = None
    max_output_tokens: int | None = None


class Unanswered(Exception):
    """The upstream gave no list; the text says why, without anything secret."""


class Outside(Protocol):
    """Calls upstreams on behalf of an administrator."""

    def try_credential(self, upstream: UpstreamEntry, credential: CredentialEntry, model: str) -> Tested:
        """Ask for a few tokens."""

    def list_models(self, upstream: UpstreamEntry, credential: CredentialEntry) -> list[Listed]:
        """Ask which models there are.

        Raises:
            Unanswered: No list came.
        """


_outside: Outside | None = None


def use(outside: Outside) -> None:
    """Hand in who calls upstreams."""
    global _outside
    _outside = outside


def outside() -> Outside:
    """Return who calls upstreams.

    Raises:
        LookupError: Nobody was handed in.
    """
    if _outside is None:
        msg = "nobody was handed in to call upstreams"
        raise LookupError(msg)
    return _outside
