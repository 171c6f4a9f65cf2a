"""A member's own client tokens: what a new one may do, and rotating an old one."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Least
from django.utils import timezone

from keys.models import ClientToken
from keys.tokens import issue_token
from usage.token_alerts import BEFORE

#: A rotated token lives as long as its predecessor was meant to, but never shorter than this.
LIFE_MIN = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a token may do."""

    scopes: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    rpm: int | None = None
    tpm: int | None = None
    concurrency: int | None = None

    def __str__(self) -> str:
        parts = [", ".join(self.scopes) or "every model"]
        if self.networks:
            parts.append(f"from {', '.join(self.networks)}")
        for number, unit in ((self.rpm, "requests/min"), (self.tpm, "tokens/min"), (self.concurrency, "at once")):
            if number is not None:
                parts.append(f"{number} {unit}")
        return "; ".join(parts)

    def as_arguments(self) -> dict[str, Any]:
        """Return them as `issue_token` takes them."""
        lists = {"scopes": list(self.scopes), "networks": list(self.networks)}
        return lists | {"rpm": self.rpm, "tpm": self.tpm, "concurrency": self.concurrency}


def limits_of(token: ClientToken) -> Limits:
    return Limits(
        scopes=tuple(token.scopes),
        networks=tuple(token.networks),
        rpm=token.rpm,
        tpm=token.tpm,
        concurrency=token.concurrency,
    )


def offered_limits(user: Any) -> list[Limits]:
    """Return what a member's new token may be like: any token they were ever given, the newest first.

    So nobody gets around the limits of a token by making another. Who never had one gets no limits.
    """
    tokens = ClientToken.objects.filter(user=user).order_by("-created_at", "-pk")
    return list(dict.fromkeys(limits_of(token) for token in tokens)) or [Limits()]


@transaction.atomic
def rotate_token(token: ClientToken, *, grace: timedelta) -> tuple[ClientToken, str]:
    """Issue a successor with the same name and limits; the old token expires after `grace` at the latest."""
    now = timezone.now()
    ends = Least("expires_at", now + grace)
    ClientToken.objects.filter(pk=token.pk).update(expires_at=ends, reminded_at=now)
    life = max(token.expires_at - token.created_at, LIFE_MIN)
    return issue_token(token.user, token.name, life=life, **limits_of(token).as_arguments())


def is_usable(token: ClientToken, now: datetime) -> bool:
    return token.revoked_at is None and token.expires_at > now


def expires_soon(token: ClientToken, now: datetime) -> bool:
    """Tell whether a token ends so soon that its member is reminded, or has ended."""
    return token.expires_at - now < BEFORE
