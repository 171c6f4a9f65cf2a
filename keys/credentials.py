"""Writing credentials: cleaning what was pasted, sealing it, storing it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from django.db import transaction

from keys.models import Credential, Upstream
from keys.ring import key_ring
from keys.secrets import KeyRing, SealingError
from keys.snapshot import secret_place

SECRET_CHARS_MIN = 4
SECRET_CHARS_MAX = 4096
#: What people paste around a secret: a shell's or an .env file's assignment, an HTTP header.
ASSIGNMENT = re.compile(
    r"(?:(?:export\s+|set\s+|\$env:)\w+|[A-Z][A-Z0-9]*_[A-Z0-9_]+|\w*(?:key|token|secret)\w*)"
    r"\s*[=:]\s*(?P<secret>[^=\s].*)",
    re.IGNORECASE | re.ASCII,
)
HEADER = re.compile(r"(?:(?:authorization|x-api-key|api-key)\s*:\s*)?(?:bearer\s+)?(?P<secret>.*)", re.IGNORECASE)
QUOTES = "'\"`"


class RefusedSecret(ValueError):
    """What was typed can't be a secret; the text says why and doesn't repeat it."""


def clean_secret(typed: str) -> str:
    """Return the secret without what was pasted around it.

    Raises:
        RefusedSecret: Nothing is left, or it has characters that no HTTP header carries.
    """
    secret = typed.strip().strip(",;").strip(QUOTES).strip()
    if match := ASSIGNMENT.fullmatch(secret):
        secret = match["secret"]
    if match := HEADER.fullmatch(secret.strip(QUOTES)):
        secret = match["secret"]
    secret = secret.strip().strip(",;").strip(QUOTES)
    if not SECRET_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX:
        msg = f"a secret has {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} characters"
        raise RefusedSecret(msg)
    if not all("!" <= char <= "~" for char in secret):
        msg = "a secret has no spaces, line breaks or characters outside ASCII"
        raise RefusedSecret(msg)
    return secret


def unseal_secret(credential: Credential, ring: KeyRing) -> str:
    """Open the stored secret; for sending and comparing, never for showing.

    Raises:
        SealingError: There is none, or it doesn't open.
    """
    return ring.unseal(credential.sealed_secret, secret_place(credential.pk))


def defect_of(credential: Credential, ring: KeyRing) -> str:
    """Say why the secret can't be used: "no_secret", "undecryptable", or "" when it can."""
    if not credential.sealed_secret:
        return "no_secret"
    try:
        unseal_secret(credential, ring)
    except SealingError:
        return "undecryptable"
    return ""


def set_secret(credential: Credential, secret: str) -> None:
    """Seal a cleaned secret into a saved credential, whose earlier states no longer hold."""
    credential.sealed_secret = key_ring().seal(secret, secret_place(credential.pk))
    credential.last_four = secret[-4:] if len(secret) >= 12 else ""
    with transaction.atomic():
        credential.save(update_fields=["sealed_secret", "last_four"])
        credential.states.all().delete()


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of a list of secrets."""

    credentials: list[Credential]
    #: How many were there already, or twice in the list.
    duplicates: int
    #: Numbers of the lines that hold no secret, and why.
    refused: list[tuple[int, str]]


def add_secrets(upstream: Upstream, lines: Iterable[str], *, label: str = "key") -> Added:
    """Make a credential of each new secret among `lines`; blank lines and comments don't count.

    Credentials that lost their secret get one first; new ones are labelled from the first free number on.
    """
    ring = key_ring()
    existing = list(upstream.credentials.order_by("pk"))
    known = {secret for credential in existing if (secret := _opened(credential, ring)) is not None}
    free = [credential for credential in existing if not credential.sealed_secret]
    labels = _free_labels({credential.label for credential in existing}, label)
    added: list[Credential] = []
    duplicates, refused = 0, []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(("#", "//")):
            continue
        try:
            secret = clean_secret(line)
        except RefusedSecret as exc:
            refused.append((number, str(exc)))
            continue
        if secret in known:
            duplicates += 1
            continue
        known.add(secret)
        added.append(free.pop(0) if free else Credential(upstream=upstream, label=next(labels)))
        _store(added[-1], secret)
    return Added(credentials=added, duplicates=duplicates, refused=refused)


@transaction.atomic
def _store(credential: Credential, secret: str) -> None:
    if credential._state.adding:
        credential.save()
    set_secret(credential, secret)


def _free_labels(taken: set[str], label: str) -> Iterator[str]:
    return (name for number in count(1) if (name := f"{label}-{number}") not in taken)


def _opened(credential: Credential, ring: KeyRing) -> str | None:
    try:
        return unseal_secret(credential, ring)
    except SealingError:
        return None
