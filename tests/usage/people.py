"""A cast for the pages: Alice leads team red, Charlie leads team blue, Dora supports all, Mallory is staff with no right."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import Group, User
from django.test import Client

from keys.roles import Role, give_role
from tests.usage.conftest import a_record
from tests.usage.test_records import an_end
from usage.histogram import BUCKETS
from usage.models import CredentialDay, CrossedDay, UsageDay, UsageHour
from usage.records import RecordWriter

#: What a name may hold and must not do: markup, a script's end, an override of the direction, length.
HOSTILE = "<img src=x onerror=alert(1)></script>\u202e\u0645\u0631\u062d\u0628\u0627\u200f" + "W" * 100


def a_lead(name: str, team: str, team_id: int | None = None) -> User:
    """Make a lead; an id of the team's must be out of the way of those that the roles get anew after each flush."""
    user = User.objects.create_user(name)
    user.groups.add(Group.objects.create(name=team, **({"pk": team_id} if team_id else {})))
    give_role(user, Role.LEAD)
    return User.objects.get(pk=user.pk)


def a_supporter(name: str) -> User:
    user = User.objects.create_user(name)
    give_role(user, Role.SUPPORT)
    return User.objects.get(pk=user.pk)


def as_(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def an_hour(hour: datetime, **changes: Any) -> None:
    """Put sums into the hour and its day."""
    sums: dict[str, Any] = {
        "user_id": 1,
        "user_name": "alice",
        "team_id": 1,
        "team_name": "red",
        "upstream_model": "glm-5",
        "credential_label": "team key",
        "state": "ok",
        "requests": 10,
        "attempts": 10,
        "input_tokens": 100,
        "ttft_histogram": [0] * BUCKETS,
        "duration_histogram": [0] * BUCKETS,
        **changes,
    }
    add_sums(hour, sums)


def add_sums(hour: datetime, sums: Mapping[str, Any]) -> None:
    """Put a row into each table of sums, with the columns that it has."""
    for model in (UsageHour, UsageDay, CredentialDay, CrossedDay):
        moment = {"hour": hour} if model is UsageHour else {"day": hour.replace(hour=0)}
        names = {field.name for field in model._meta.get_fields()}
        model.objects.create(key=uuid4(), **moment, **{name: sums[name] for name in sums.keys() & names})


def settle(dsn: str, folder: Path, *pairs: tuple[dict[str, Any], dict[str, Any] | None]) -> list[str]:
    """Open a record for each pair and settle it with the second part; return their request ids."""

    async def fill() -> list[str]:
        writer = RecordWriter(dsn, folder / "spool", "worker-1")
        await writer.start()
        records = [a_record(**opened) for opened, _ in pairs]
        for record, (_, ended) in zip(records, pairs, strict=True):
            await writer.open(record)
            if ended is not None:
                writer.settle(an_end(record, **ended))
        await writer.close()
        return [record.request_id for record in records]

    return asyncio.run(fill())
