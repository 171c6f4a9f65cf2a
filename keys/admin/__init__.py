"""The support desk for upstreams, credentials, routes, client tokens, members and teams."""

from keys.admin.credentials import CredentialAdmin
from keys.admin.members import GroupAdmin, UserAdmin
from keys.admin.routes import RouteAdmin
from keys.admin.tokens import ClientTokenAdmin
from keys.admin.upstreams import UpstreamAdmin, UpstreamModelAdmin

__all__ = [
    "ClientTokenAdmin",
    "CredentialAdmin",
    "GroupAdmin",
    "RouteAdmin",
    "UpstreamAdmin",
    "UpstreamModelAdmin",
    "UserAdmin",
]
