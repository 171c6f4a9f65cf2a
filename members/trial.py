"""What came in with a client token since a moment: a request that was answered, one that was turned away, or none."""

from dataclasses import dataclass
from datetime import datetime

from keys.models import ClientToken, TokenRefusal
from members.fixes import Advice, Case, advise
from usage.ids import first_id_at
from usage.models import UsageRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway:
    """The last request with a token that never reached an upstream, and what helps."""

    refusal: TokenRefusal
    advice: Advice


def first_request(token: ClientToken, since: datetime) -> UsageRecord | None:
    """Return the first request of a token from a moment on; of its attempts the last, which says how it ended."""
    records = UsageRecord.objects.filter(token_id=token.pk, id__gte=first_id_at(since))
    first = records.order_by("id").first()
    if first is None:
        return None
    return records.filter(request_id=first.request_id).order_by("-attempt").first()


def turned_away(token: ClientToken, since: datetime, base_url: str) -> TurnedAway | None:
    """Return the last refusal of a token from a moment on.

    Not one of a request that has a usage record: an upstream was asked before it failed, and the record tells more.
    """
    refusal = TokenRefusal.objects.filter(token=token, at__gte=since).first()
    if refusal is None:
        return None
    if UsageRecord.objects.filter(request_id=refusal.request_id, id__gte=first_id_at(since)).exists():
        return None
    return TurnedAway(refusal=refusal, advice=advise(Case(refusal=refusal, token=token, base_url=base_url)))


def used_instead(token: ClientToken, since: datetime) -> ClientToken | None:
    """Return another token of the same member that a request came in with, the last one; None when none did."""
    others = ClientToken.objects.filter(user=token.user).exclude(pk=token.pk)
    refusal = TokenRefusal.objects.filter(token__in=others, at__gte=since).order_by("-at").first()
    mine = UsageRecord.objects.filter(user_id=token.user_id, id__gte=first_id_at(since))
    record = mine.filter(token_id__in=others.values("pk")).order_by("-id").first()
    if record is not None and record.token_id and (refusal is None or record.started_at > refusal.at):
        return others.filter(pk=record.token_id).first()
    return None if refusal is None else others.filter(refusal=refusal).first()
