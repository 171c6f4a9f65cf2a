"""Tells an administrator of live secrets that were seen in the text of requests.

Each secret is told of once, of several workers by one, and all that is seen within a minute in one message. A sighting
whose secret was rotated is forgotten here.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from keys.sightings import IS_LIVE
from usage.alerts import Addresses, listed, tell
from usage.connection import LedgerConnection

#: Messages keep this distance.
APART = "1 minute"

FORGET = f"DELETE FROM keys_sighting s WHERE NOT {IS_LIVE}"  # noqa: S608  (a text of our own)
#: What is this worker's to tell of.
CLAIM = f"""
WITH claimed AS (
    UPDATE keys_sighting SET told_at = now()
    WHERE told_at IS NULL AND dismissed_at IS NULL
      AND NOT EXISTS (SELECT FROM keys_sighting WHERE told_at > now() - interval '{APART}')
    RETURNING kind, secret_id, request_id, user_id)
SELECT s.kind, coalesce(owner.username, upstream.name), coalesce(t.name, c.label), coalesce(t.last_four, c.last_four),
       s.request_id, coalesce(who.username, '')
FROM claimed s
LEFT JOIN keys_clienttoken t ON s.kind = 'token' AND t.id = s.secret_id
LEFT JOIN auth_user owner ON owner.id = t.user_id
LEFT JOIN keys_credential c ON s.kind = 'credential' AND c.id = s.secret_id
LEFT JOIN keys_upstream upstream ON upstream.id = c.upstream_id
LEFT JOIN auth_user who ON who.id = s.user_id
ORDER BY 1, 2, 3
"""  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaked:
    """A secret that was seen."""

    #: token or credential
    kind: str
    #: The token's member, or the credential's upstream.
    owner: str
    #: The token's name, or the credential's label.
    name: str
    last_four: str
    #: Where it was seen last, and whose request that was.
    request_id: str
    seen_with: str

    @property
    def text(self) -> str:
        what = "client token" if self.kind == "token" else "credential"
        ending = f" (…{self.last_four})" if self.last_four else ""
        return f"{what} {self.owner} / {self.name}{ending}, in {self.request_id} of {self.seen_with or 'somebody'}"


async def tell_of_leaks(connection: LedgerConnection, addresses: Addresses) -> None:
    """Look once, and tell of what is news."""
    _, claimed = await connection.run([(FORGET, []), (CLAIM, [])])
    names = ("kind", "owner", "name", "last_four", "request_id", "seen_with")
    if news := [Leaked(**dict(zip(names, row, strict=True))) for row in await claimed.fetchall()]:
        await asyncio.to_thread(send, news, addresses)


def send(leaks: Sequence[Leaked], addresses: Addresses) -> None:
    """Send one message about all of them."""
    count = len(leaks)
    subject = "A secret was seen in a request" if count == 1 else f"{count} secrets were seen in requests"
    named = listed([one.text for one in leaks])
    text = "\n".join([f"{subject}, and a request's text goes to an upstream. Rotate:", *named])
    facts = [
        {
            "kind": one.kind,
            "owner": one.owner,
            "name": one.name,
            "request_id": one.request_id,
            "seen_with": one.seen_with,
        }
        for one in leaks
    ]
    body = orjson.dumps({"text": text, "leaks": facts})
    tell(subject, text, emails=addresses.emails, webhook=addresses.webhook, body=body)
