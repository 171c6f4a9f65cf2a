"""Names that try to break pages: markup, the end of a script, marks that turn the direction, and great length."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.utils import timezone

from keys.credentials import add_secrets
from keys.models import Credential, CredentialState, Route, TokenRefusal, Upstream, UpstreamModel, UpstreamState
from keys.tokens import issue_token
from members.models import AuditEntry
from tests.members.ledger import add_record
from usage.models import Budget, PoolChange, Price, SavedReport

MARKUP = "<img src=x onerror=alert(1)></script></title></textarea>"
TURNED = "\u202e\u2067evil\u200f"
LONG = 300


def hostile(limit: int = LONG) -> str:
    """Fill `limit` characters, without any place to break the line."""
    return (MARKUP + TURNED + "W" * LONG)[:limit]


def spaceless(limit: int) -> str:
    return hostile(limit).replace(" ", "/")


def fill(user: User) -> dict[str, Model]:
    """Give `user` a team and things of every kind, all with hostile names; return a row of each kind, by app_model."""
    team = Group.objects.create(name=hostile(150))
    user.groups.add(team)
    User.objects.filter(pk=user.pk).update(first_name=hostile(150), last_name=hostile(150))
    upstream = Upstream.objects.create(name="w" * 64, base_url=f"https://{'w' * 60}.example/{'w' * 300}")
    credential = add_secrets(upstream, ["sk-hostile-1234567890"]).credentials[0]
    Credential.objects.filter(pk=credential.pk).update(label=hostile(100))
    token, _ = issue_token(user, hostile(100), scopes=[hostile(200)])
    route = Route.objects.create(alias=spaceless(200))
    route.targets.create(upstream=upstream, upstream_model=hostile(200))
    now = timezone.now()
    for states in (CredentialState(credential=credential), UpstreamState(upstream=upstream)):
        states.model_name, states.state, states.cause = hostile(200), "cooling", "rate_limit"
        states.until = states.last_failure_at = now + timedelta(minutes=5)
        states.save()
    TokenRefusal.objects.create(
        token=token, at=now, request_id="r", status=400, error_type=hostile(64), message=hostile(300), method="POST",
        path=hostile(200), client_name=hostile(64), client_version=hostile(32),
    )  # fmt: skip
    PoolChange.objects.create(
        upstream_id=upstream.pk, upstream_name=hostile(150), credential_id=credential.pk, credential_label=hostile(150),
        model_name=hostile(200), state="ejected", cause=hostile(32), until=now + timedelta(hours=1),
        changed_at=now - timedelta(hours=1),
    )  # fmt: skip
    SavedReport.objects.create(owner=user, name=hostile(80), team=team, query="by=user")
    price = Price.objects.create(upstream_model=hostile(200), input_price=1, output_price=1, origin=hostile(150))
    return {
        "keys_upstream": upstream,
        "keys_credential": credential,
        "keys_clienttoken": token,
        "keys_route": route,
        "keys_upstreammodel": UpstreamModel.objects.create(upstream=upstream, name=hostile(200)),
        "usage_usagerecord": add_records(user, token, price)[0],
        "usage_budget": Budget.objects.create(name=hostile(150), subject="team", subject_id=team.pk, limit=10**9),
        "usage_price": price,
        "auth_user": user,
        "auth_group": team,
        "members_auditentry": AuditEntry.objects.filter(after__contains="<img").latest("id"),
    }


def add_records(user: User, token: Any, price: Price) -> list[Any]:
    """Give the user's sessions: a good one, in which the cache is missed, and a failed request."""
    shared: dict[str, Any] = {
        "session_id": hostile(128),
        "alias": hostile(200),
        "upstream_name": hostile(150),
        "upstream_model": hostile(200),
        "credential_label": hostile(150),
        "client_name": hostile(64),
        "client_version": hostile(32),
        "agent_kind": hostile(64),
        "client_request_id": hostile(128),
        "team_name": user.groups.all()[0].name,
        "price_version": price.pk,
        "source": "upstream",
        "stop_reason": hostile(64),
        "notes": [hostile(64)],
    }
    reads = (9000, 9000, 0)
    records = [
        add_record(user, token, age=timedelta(minutes=9 - number), cache_read_tokens=read, **shared)
        for number, read in enumerate(reads)
    ]
    failed = {"state": "upstream_error", "error_type": hostile(64), "error_message": hostile(300), "agent_id": "a1"}
    return [*records, add_record(user, token, **shared | failed)]
