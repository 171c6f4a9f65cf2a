"""Upstreams, their credentials and models, the routes to them, and the tokens of clients."""

from keys.models.credentials import Credential, CredentialState, State, StateFields, UpstreamState, Worker
from keys.models.routes import Route, RouteTarget
from keys.models.tokens import TOKEN_LIFE_MAX, ClientToken, Sighting, TokenRefusal
from keys.models.upstreams import (
    CONTINUE_ROUNDS_MAX,
    PLAIN,
    Compaction,
    Dialect,
    Tools,
    Upstream,
    UpstreamModel,
    validate_base_url,
)

__all__ = [
    "CONTINUE_ROUNDS_MAX",
    "PLAIN",
    "TOKEN_LIFE_MAX",
    "ClientToken",
    "Compaction",
    "Credential",
    "CredentialState",
    "Dialect",
    "Route",
    "RouteTarget",
    "Sighting",
    "State",
    "StateFields",
    "TokenRefusal",
    "Tools",
    "Upstream",
    "UpstreamModel",
    "UpstreamState",
    "Worker",
    "validate_base_url",
]
