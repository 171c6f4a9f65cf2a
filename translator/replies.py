"""What an attempt comes to, as far as its client is concerned."""

from dataclasses import dataclass

from keys.pool.facts import Outcome
from translator.core.errors import ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The attempt failed, and the client knows nothing of it."""

    error: ClientError
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole answer in the client's dialect."""

    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A stream has begun; its first bytes for the client are here, unless the upstream keeps silent."""

    first: bytes
