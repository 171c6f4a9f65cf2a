"""Reminds members by mail of a client token of theirs that ends soon, so that nobody's client stops at a surprise.

Each token is told of once, of several workers by one. Left out are tokens that nobody uses, short-lived ones, and those
that were rotated: they are meant to end.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings

from usage.alerts import tell
from usage.connection import LedgerConnection

#: How long before its end a token is told of; how long ago it was used at most; how long it lives in all at least.
BEFORE, USED_WITHIN, LIFE_MIN = timedelta(days=7), timedelta(days=7), timedelta(days=14)
#: So many mails in one go: a mail server that doesn't answer holds up each for ten seconds.
AT_ONCE = 10

#: What is this worker's to remind of.
CLAIM = f"""
UPDATE keys_clienttoken AS t SET reminded_at = now()
FROM auth_user AS u
WHERE u.id = t.user_id AND t.id IN (
    SELECT t.id FROM keys_clienttoken AS t JOIN auth_user AS u ON u.id = t.user_id
    WHERE t.reminded_at IS NULL AND t.revoked_at IS NULL AND u.is_active AND u.email <> ''
      AND t.expires_at > now() AND t.expires_at < now() + interval '{BEFORE.days} days'
      AND t.expires_at > t.created_at + interval '{LIFE_MIN.days} days'
      AND t.last_used_at > now() - interval '{USED_WITHIN.days} days'
    ORDER BY t.expires_at LIMIT {AT_ONCE}
    FOR UPDATE OF t SKIP LOCKED)
RETURNING u.email, u.username, t.name, t.last_four, t.expires_at
"""  # noqa: S608  (a text of our own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A client token that ends soon."""

    #: Its member's address.
    email: str
    username: str
    name: str
    last_four: str
    expires_at: datetime

    @property
    def text(self) -> str:
        return (
            f"The client token {self.name!r} (…{self.last_four}) of {self.username} ends on"
            f" {self.expires_at.astimezone(UTC):%Y-%m-%d at %H:%M} UTC. Requests with it are refused from then on.\n"
            "Rotate it on your page of Bridge, and give your client the new one; the old one goes on for a while."
        )


async def remind_of_tokens(connection: LedgerConnection) -> None:
    """Look once, and mail whom it concerns; only where a mail server was named."""
    if not settings.MAILS_MEMBERS:
        return
    (claimed,) = await connection.run([(CLAIM, [])])
    names = ("email", "username", "name", "last_four", "expires_at")
    if ending := [Ending(**dict(zip(names, row, strict=True))) for row in await claimed.fetchall()]:
        await asyncio.to_thread(send, ending)


def send(ending: Sequence[Ending]) -> None:
    """Send a mail about each."""
    for one in ending:
        tell("A client token of yours ends soon", one.text, emails=[one.email], webhook="", body=b"")
