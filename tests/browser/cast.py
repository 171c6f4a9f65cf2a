"""The people of the browser tests: made by the gateway itself (`manage.py shell`), so that its own rules made them.

Each test has a team that nobody else uses: a member, their lead, and an administrator. Tests that only read share a
made-up team with weeks of use; nobody else's requests ever count for it.
"""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now
from django.test import Client

from keys.models import Sighting
from keys.roles import Role, give_role
from keys.tokens import issue_token
from members.proof import PROVED_AT
from tests.made_up_team import make_up
from tests.members.crawl import addresses

PASSWORD = "correct horse battery staple"
DAY_S = 86_400
#: Who did most in the made-up team, and may see all that there is.
WALKER = "mia"
RECORDS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    id: int
    name: str
    #: The cookie of somebody who has just logged in.
    session: str
    #: A client token; empty for who has none.
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Whom one test has to itself."""

    #: Tells the names of this test's things from those of the others.
    tag: str
    team: str
    member: Person
    lead: Person
    admin: Person


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """All that the gateway was filled with."""

    casts: list[Cast]
    walker: Person
    #: The addresses of the admin and of the members' pages, by the names of the URL table.
    pages: list[tuple[str, str]]


def fill(count: int, upstream_url: str, file: str) -> None:
    """Make the made-up team and `count` casts, and write down who they are."""
    make_up(upstream_url, PASSWORD, records=RECORDS)
    password = make_password(PASSWORD)
    walker = User.objects.get(username=WALKER)
    walker.is_superuser = walker.is_staff = True
    walker.save()
    company = Company(
        casts=[_cast(f"{number:03}", password) for number in range(1, count + 1)],
        walker=_person(walker),
        pages=addresses(_leaked(_rows(walker), walker)),
    )
    Path(file).write_text(json.dumps(asdict(company)), encoding="utf-8")


def read(file: Path) -> Company:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    roles = ("member", "lead", "admin")
    casts = [Cast(**{**cast, **{role: Person(**cast[role]) for role in roles}}) for cast in found["casts"]]
    return Company(casts=casts, walker=Person(**found["walker"]), pages=[tuple(page) for page in found["pages"]])


def _cast(tag: str, password: str) -> Cast:
    team = Group.objects.create(name=f"team-{tag}")
    member, lead, admin = User.objects.bulk_create(
        User(username=f"{role}-{tag}", password=password, is_superuser=role == "admin", is_staff=role == "admin")
        for role in ("member", "lead", "admin")
    )
    for user in (member, lead):
        user.groups.add(team)
    give_role(lead, Role.LEAD)
    _, token = issue_token(member, "laptop")
    return Cast(tag=tag, team=team.name, member=_person(member, token), lead=_person(lead), admin=_person(admin))


def _person(user: User, token: str = "") -> Person:
    client = Client()
    client.force_login(user)
    session = client.session
    # The run may last longer than a typed password counts.
    session[PROVED_AT] = int(time.time()) + DAY_S
    session.save()
    return Person(id=user.pk, name=user.username, session=str(session.session_key), token=token)


def _leaked(rows: dict[str, Any], walker: User) -> dict[str, Any]:
    """Let a token and a credential be seen in a request, so that pages tell of it."""
    token, credential = rows["keys_clienttoken"], rows["keys_credential"]
    seen = {"first_at": Now(), "last_at": Now(), "times": 3, "request_id": "req_seen", "user": walker}
    Sighting.objects.create(kind="token", secret_id=token.pk, **seen)
    Sighting.objects.create(kind="credential", secret_id=credential.pk, last_four=credential.last_four, **seen)
    return rows


def _rows(walker: User) -> dict[str, Any]:
    """Give the newest row of each table; of what somebody can own, one of the walker's."""
    from django.apps import apps

    rows = {}
    for model in apps.get_models():
        newest = model._default_manager.order_by("-pk")
        if hasattr(model, "user_id"):
            newest = newest.filter(user_id=walker.pk)
        rows[f"{model._meta.app_label}_{model._meta.model_name}"] = newest.first()
    return {name: row for name, row in rows.items() if row is not None}
