"""The support desk for upstreams, credentials, routes and client tokens."""

from keys.admin.credentials import CredentialAdmin
from keys.admin.routes import RouteAdmin
from keys.admin.tokens import ClientTokenAdmin
from keys.admin.upstreams import UpstreamAdmin, UpstreamModelAdmin

__all__ = [
    "ClientTokenAdmin",
    "CredentialAdmin",
    "RouteAdmin",
    "UpstreamAdmin",
    "UpstreamModelAdmin",
]
