"""Client tokens: `brg_`, 33 random characters, 6 of checksum. Only the digest is stored.

A wrong prefix, length, character or checksum is told without any look-up.
"""

import hashlib
import re
import secrets
import string
import zlib
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.utils import timezone

from keys.models import ClientToken

PREFIX = "brg_"
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
#: 33 characters of base 62 carry 196 bits.
RANDOM_CHARS = 33
CHECKSUM_CHARS = 6
FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_CHARS + CHECKSUM_CHARS}}}")
LIFE_DEFAULT = timedelta(days=90)


def new_token() -> str:
    """Make a token that nobody has."""
    body = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_CHARS))
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Tell whether `token` can be one of ours: form and checksum fit."""
    return FORM.fullmatch(token) is not None and _checksum(token[:-CHECKSUM_CHARS]) == token[-CHECKSUM_CHARS:]


def digest(token: str) -> str:
    """Return what is stored in the token's place. A fast hash is right for a random secret."""
    return hashlib.sha256(token.encode()).hexdigest()


def issue_token(
    user: User,
    name: str = "default",
    *,
    life: timedelta = LIFE_DEFAULT,
    scopes: list[str] | None = None,
    networks: list[str] | None = None,
    rpm: int | None = None,
    tpm: int | None = None,
    concurrency: int | None = None,
) -> tuple[ClientToken, str]:
    """Store a new token; return it with the plain text, which exists nowhere else."""
    plain = new_token()
    row = ClientToken.objects.create(
        user=user,
        name=name,
        digest=digest(plain),
        prefix=plain[: len(PREFIX) + 4],
        last_four=plain[-4:],
        scopes=scopes or [],
        networks=networks or [],
        rpm=rpm,
        tpm=tpm,
        concurrency=concurrency,
        expires_at=timezone.now() + life,
    )
    return row, plain


def revoke_token(pk: int) -> bool:
    """Revoke a token for good; False when it was revoked before or doesn't exist."""
    return ClientToken.objects.filter(pk=pk, revoked_at=None).update(revoked_at=Now()) == 1


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    chars = []
    for _ in range(CHECKSUM_CHARS):
        number, place = divmod(number, len(ALPHABET))
        chars.append(ALPHABET[place])
    return "".join(reversed(chars))
