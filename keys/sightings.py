"""Which live secrets of ours were seen in the text of requests: gathered by each worker, read by pages.

What is kept is the secret's id, when, how often, and in whose request; never the secret or anything of the text. Of a
secret that opens nothing any more nothing is kept: it was rotated, as it should be.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

import orjson
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from keys.gathered import GatheredSoon
from keys.leaks import Kind, Leak
from keys.models import ClientToken, Credential, Sighting

#: That the secret of a row `s` still opens something: a rotated one is no longer ours.
IS_LIVE = """
(s.kind = 'token' AND EXISTS (SELECT FROM keys_clienttoken t
    WHERE t.id = s.secret_id AND t.revoked_at IS NULL AND t.expires_at > now())
 OR s.kind = 'credential' AND EXISTS (SELECT FROM keys_credential c
    WHERE c.id = s.secret_id AND c.sealed_secret <> '' AND c.last_four = s.last_four))"""
#: (rows): add to what is known. Rows are locked in order.
WRITE = f"""
INSERT INTO keys_sighting AS known (kind, secret_id, last_four, first_at, last_at, times, request_id, user_id)
SELECT s.kind, s.secret_id, s.last_four, now() - s.age_s * interval '1 second', now() - s.age_s * interval '1 second',
       s.times, s.request_id, u.id
FROM json_to_recordset(%s::json) AS s(kind text, secret_id bigint, last_four text, age_s double precision,
                                      times integer, request_id text, user_id integer)
LEFT JOIN auth_user u ON u.id = s.user_id
WHERE {IS_LIVE}
ORDER BY s.kind, s.secret_id
ON CONFLICT (kind, secret_id, last_four) DO UPDATE SET last_at = greatest(known.last_at, excluded.last_at),
    times = known.times + excluded.times, request_id = excluded.request_id, user_id = excluded.user_id"""  # noqa: S608  (texts of our own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last request that one secret was seen in, and how many there were."""

    request_id: str
    user_id: int
    times: int = 1
    #: On this process's clock.
    at: float = field(default_factory=monotonic)


class Sightings(GatheredSoon[Leak, Seen]):
    """Gathers what one worker saw."""

    what = "secrets seen in requests"
    statement = WRITE.encode()

    def note(self, leak: Leak, *, request_id: str, user_id: int) -> None:
        before = self._seen.get(leak)
        times = 1 if before is None else before.times + 1
        self._keep(leak, Seen(request_id=request_id, user_id=user_id, times=times))

    def _place(self, seen: dict[Leak, Seen]) -> str:
        now = monotonic()
        rows = [
            asdict(each)
            | {"kind": leak.kind, "secret_id": leak.id, "last_four": leak.last_four, "age_s": now - each.at}
            for leak, each in seen.items()
        ]
        return orjson.dumps(rows).decode()

    def _put_back(self, seen: dict[Leak, Seen]) -> None:
        for leak, old in seen.items():
            new = self._seen.get(leak)
            kept = (
                old
                if new is None
                else Seen(request_id=new.request_id, user_id=new.user_id, times=old.times + new.times, at=new.at)
            )
            self._seen[leak] = kept


def open_sightings(kind: Kind, ids: Iterable[int] | QuerySet[Any, Any]) -> dict[int, Sighting]:
    """Return what is to be told of these tokens or credentials, by their ids."""
    rows = _live(kind).filter(secret_id__in=ids, dismissed_at=None).select_related("user")
    return {row.secret_id: row for row in rows}


def dismiss(sighting: Sighting) -> bool:
    """Tell no more of this secret; False when that was said before."""
    return Sighting.objects.filter(pk=sighting.pk, dismissed_at=None).update(dismissed_at=Now()) == 1


def _live(kind: Kind) -> QuerySet[Sighting, Any]:
    """Return the sightings whose secret still opens something."""
    secrets: QuerySet[Any] = (
        ClientToken.objects.filter(revoked_at=None, expires_at__gt=Now())
        if kind is Kind.TOKEN
        else Credential.objects.filter(last_four=OuterRef("last_four")).exclude(sealed_secret="")
    )
    return Sighting.objects.filter(Exists(secrets.filter(pk=OuterRef("secret_id"))), kind=kind)
