"""Tells an administrator, by mail and by webhook, of credentials that somebody must look after, and of leaks.

Those are the quarantined ones (a wrong secret, no credit) and those whose secret our key ring doesn't open. Each is
told of once until it serves again, of several workers by one, and all that is found at a time in one message.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import orjson
import psycopg

from keys.entries import CredentialEntry, UpstreamEntry
from keys.standing import CAUSES
from keys.tasks import end_task
from usage.alerts import Addresses, listed, tell
from usage.connection import AWAY, LedgerConnection
from usage.leak_alerts import tell_of_leaks
from usage.token_alerts import remind_of_tokens

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
#: The two throttles: a credential that flaps is told of again after this, and messages keep this distance.
AGAIN_AFTER = "1 hour"
APART = "1 minute"

UNDECRYPTABLE = "undecryptable"
WORDS = {**CAUSES, UNDECRYPTABLE: "its secret can't be opened with the encryption keys of this installation"}

QUARANTINED = """
SELECT u.name, c.id, c.label, c.last_four, s.cause
FROM keys_credentialstate s
JOIN keys_credential c ON c.id = s.credential_id
JOIN keys_upstream u ON u.id = c.upstream_id
WHERE s.state = 'quarantined' AND s.model_name = '' AND c.enabled AND u.enabled
ORDER BY u.name, c.label
"""
#: (ids, causes) -> the ids that are this worker's to tell of
CLAIM = f"""
INSERT INTO usage_poolwarning AS known (credential_id, cause)
SELECT found.id, found.cause FROM unnest($1::bigint[], $2::text[]) AS found (id, cause)
WHERE NOT EXISTS (SELECT FROM usage_poolwarning WHERE warned_at > now() - interval '{APART}')
ON CONFLICT (credential_id) DO UPDATE SET cause = excluded.cause, warned_at = now(), is_over = false
WHERE (known.is_over OR known.cause <> excluded.cause) AND known.warned_at < now() - interval '{AGAIN_AFTER}'
RETURNING credential_id
"""  # noqa: S608  (constants of this file)
#: (ids that are in trouble): all others have come back, or are gone
OVER = "UPDATE usage_poolwarning SET is_over = true WHERE NOT is_over AND NOT credential_id = ANY($1::bigint[])"
FORGET = "DELETE FROM usage_poolwarning WHERE is_over AND warned_at < now() - interval '1 day'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A credential that somebody must look after."""

    credential_id: int
    upstream: str
    label: str
    last_four: str
    cause: str

    @property
    def text(self) -> str:
        return f"{self.upstream} / {self.label} (…{self.last_four}): {WORDS.get(self.cause, self.cause)}"


class PoolAlerts:
    """Looks for trouble, for one worker.

    Args:
        sealed: Gives the credentials whose secret this worker can't open, with their upstreams.
    """

    def __init__(
        self,
        dsn: str,
        addresses: Addresses,
        sealed: Callable[[], Iterable[tuple[UpstreamEntry, CredentialEntry]]],
    ) -> None:
        self._connection = LedgerConnection(dsn)
        self._addresses = addresses
        self._sealed = sealed
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="pool alerts")

    async def close(self) -> None:
        await end_task(self._task)
        await self._connection.close()

    async def look(self) -> None:
        """Look once, and tell of what is news."""
        troubles = {one.credential_id: one for one in [*await self._quarantined(), *self._undecryptable()]}
        claim = (CLAIM, [list(troubles), [one.cause for one in troubles.values()]])
        _, _, claimed = await self._connection.run([(OVER, [list(troubles)]), (FORGET, []), claim])
        mine = {row[0] for row in await claimed.fetchall()}
        if news := [one for one in troubles.values() if one.credential_id in mine]:
            await asyncio.to_thread(tell_of, news, self._addresses)

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
                await tell_of_leaks(self._connection, self._addresses)
                await remind_of_tokens(self._connection)
            except (psycopg.Error, *AWAY) as exc:
                logger.warning(
                    "nobody looks for quarantined credentials, leaks and ending tokens now: %s", type(exc).__name__
                )
            await asyncio.sleep(LOOK_EVERY_S)

    async def _quarantined(self) -> list[Trouble]:
        (cursor,) = await self._connection.run([(QUARANTINED, [])])
        return [
            Trouble(upstream=upstream, credential_id=id_, label=label, last_four=last_four, cause=cause)
            for upstream, id_, label, last_four, cause in await cursor.fetchall()
        ]

    def _undecryptable(self) -> list[Trouble]:
        return [
            Trouble(
                upstream=upstream.name,
                credential_id=entry.id,
                label=entry.label,
                last_four=entry.last_four,
                cause=UNDECRYPTABLE,
            )
            for upstream, entry in self._sealed()
        ]


def tell_of(troubles: Sequence[Trouble], addresses: Addresses) -> None:
    """Send one message about all of them."""
    count = len(troubles)
    subject = "A credential needs you" if count == 1 else f"{count} credentials need you"
    named = listed([one.text for one in troubles])
    text = "\n".join([f"{subject}. Bridge does without until that is mended:", *named])
    facts = [{"upstream": one.upstream, "credential": one.label, "cause": one.cause} for one in troubles]
    body = orjson.dumps({"text": text, "credentials": facts})
    tell(subject, text, emails=addresses.emails, webhook=addresses.webhook, body=body)
