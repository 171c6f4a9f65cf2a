"""The installation's ring of encryption keys, and its rotation.

Rotation goes in three steps, with traffic running: a new key is put first in the ring, all secrets are sealed
anew under it, and old keys leave the ring once nothing is sealed under them. Where the ring is a file, a process
that meets a key it doesn't know reads the file again.
"""

import base64
import os
import secrets as random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction

from keys.models import Credential
from keys.secrets import KEY_BYTES, KeyRing, SealingError, Unreadable, parse_key_ring, sealed_under
from keys.snapshot import secret_place

#: Any number that nothing else in this database locks.
ADVISORY_LOCK = 0x6272_6467


class RotationRuns(Exception):
    """Another rotation holds the lock."""


class RingIsFixed(Exception):
    """The ring stands in the environment, which we can't write."""


class KeyInUse(Exception):
    """Something is still sealed under an old key."""


def key_ring() -> KeyRing:
    """Return the ring as it is now."""
    path = settings.ENCRYPTION_KEYS_FILE
    if path is None:
        return _parsed(settings.ENCRYPTION_KEYS)
    try:
        stamp = path.stat()
    except OSError:
        return _parsed(settings.ENCRYPTION_KEYS)
    return _read(path, stamp.st_mtime_ns, stamp.st_ino)


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int, _inode: int) -> KeyRing:
    return parse_key_ring(path.read_text(encoding="utf-8").strip())


@lru_cache(maxsize=4)
def _parsed(text: str) -> KeyRing:
    return parse_key_ring(text)


def add_key() -> str:
    """Put a new key first in the ring's file; return its id.

    Raises:
        RingIsFixed: The ring isn't ours to write.
    """
    ring = key_ring()
    number = next(n for n in range(1, len(ring.keys) + 2) if f"k{n}" not in ring.keys)
    key_id = f"k{number}"
    _write({key_id: random.token_bytes(KEY_BYTES), **ring.keys})
    return key_id


def forget_old_keys() -> list[str]:
    """Leave only the key in use in the ring's file; return the ids of those that left.

    Raises:
        RingIsFixed: The ring isn't ours to write.
        KeyInUse: A secret is sealed under one of them.
    """
    ring = key_ring()
    if left := _sealed_under_others(ring):
        msg = f"{len(left)} secrets are not sealed under {ring.in_use} yet"
        raise KeyInUse(msg)
    _write({ring.in_use: ring.keys[ring.in_use]})
    return [key_id for key_id in ring.keys if key_id != ring.in_use]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """What a rotation did."""

    key_id: str
    sealed_anew: int
    #: Credentials whose secret no key of the ring opens.
    undecryptable: list[str]


def seal_anew() -> Rotated:
    """Seal every secret under the key in use, row by row; may be interrupted and called again.

    Raises:
        RotationRuns: Another process is at it.
    """
    ring = key_ring()
    with _advisory_lock():
        done, undecryptable = 0, []
        for pk in _sealed_under_others(ring):
            try:
                done += _seal_one(pk, ring)
            except SealingError:
                undecryptable.append(str(Credential.objects.get(pk=pk)))
    return Rotated(key_id=ring.in_use, sealed_anew=done, undecryptable=undecryptable)


@transaction.atomic
def _seal_one(pk: int, ring: KeyRing) -> bool:
    """Seal one secret anew; False when somebody else did, or removed it."""
    row = Credential.objects.select_for_update().filter(pk=pk).exclude(sealed_secret="").first()
    if row is None or sealed_under(row.sealed_secret) == ring.in_use:
        return False
    place = secret_place(pk)
    row.sealed_secret = ring.seal(ring.unseal(row.sealed_secret, place), place)
    row.save(update_fields=["sealed_secret"])
    return True


def _sealed_under_others(ring: KeyRing) -> list[int]:
    rows = Credential.objects.exclude(sealed_secret="").order_by("pk").values_list("pk", "sealed_secret")
    return [pk for pk, sealed in rows if _key_id(sealed) != ring.in_use]


def _key_id(sealed: str) -> str:
    try:
        return sealed_under(sealed)
    except Unreadable:
        return ""


@contextmanager
def _advisory_lock() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_LOCK])
        if not cursor.fetchone()[0]:
            msg = "another rotation is running"
            raise RotationRuns(msg)
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])


def _write(keys: dict[str, bytes]) -> None:
    """Replace the ring's file in one step, so that no reader sees half of it."""
    path = settings.ENCRYPTION_KEYS_FILE
    if path is None:
        msg = "the ring stands in BRIDGE_ENCRYPTION_KEYS: change it there, and restart"
        raise RingIsFixed(msg)
    text = ",".join(f"{key_id}:{base64.b64encode(key).decode()}" for key_id, key in keys.items())
    fresh = path.with_suffix(".new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
