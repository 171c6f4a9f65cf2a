"""Sealing of credential secrets: AES-256-GCM under a ring of keys.

A sealed secret reads `v1.<key id>.<base64 of nonce and ciphertext>`. Its associated data names the place it
belongs to (table, row, field) and the key, so a ciphertext that is copied to another row does not open there.

* SealingError
  x UnknownKey      the ring has no key of that id
  x Unreadable      wrong key, wrong place or damaged text
"""

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORMAT = "v1"
KEY_BYTES = 32
NONCE_BYTES = 12
KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")


class SealingError(Exception):
    """A secret could not be sealed or opened; the text never tells the secret."""


class UnknownKey(SealingError):
    """The ring has no key of that id."""


class Unreadable(SealingError):
    """Wrong key, wrong place or damaged text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a sealed secret lives."""

    table: str
    pk: int
    field: str

    def associated_data(self, key_id: str) -> bytes:
        return f"{self.table}:{self.pk}:{self.field}:{key_id}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """Encryption keys by id; new secrets are sealed under the one in use."""

    in_use: str
    keys: Mapping[str, bytes] = field(repr=False)

    def seal(self, secret: str, place: Place) -> str:
        """Seal `secret` for one place, under the key in use."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = AESGCM(self.keys[self.in_use]).encrypt(nonce, secret.encode(), place.associated_data(self.in_use))
        return f"{FORMAT}.{self.in_use}.{base64.b64encode(nonce + sealed).decode()}"

    def unseal(self, text: str, place: Place) -> str:
        """Open a sealed secret.

        Raises:
            SealingError: It doesn't open; there is never any other answer.
        """
        key_id = sealed_under(text)
        key = self.keys.get(key_id)
        if key is None:
            msg = f"no encryption key {key_id!r} in the ring"
            raise UnknownKey(msg)
        try:
            raw = base64.b64decode(text.split(".", 2)[2], validate=True)
            return AESGCM(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], place.associated_data(key_id)).decode()
        except (InvalidTag, binascii.Error, ValueError) as exc:
            msg = "the sealed secret doesn't open with its key in this place"
            raise Unreadable(msg) from exc


def sealed_under(text: str) -> str:
    """Return the id of the key that `text` is sealed under.

    Raises:
        Unreadable: It isn't a sealed secret.
    """
    parts = text.split(".", 2)
    if len(parts) != 3 or parts[0] != FORMAT or not KEY_ID.fullmatch(parts[1]):
        msg = "not a sealed secret"
        raise Unreadable(msg)
    return parts[1]


def parse_key_ring(text: str) -> KeyRing:
    """Read `ID:BASE64,ID:BASE64`; the first one is in use.

    Raises:
        ValueError: An item is malformed, an id comes twice, or a key isn't 32 bytes long.
    """
    keys: dict[str, bytes] = {}
    for item in filter(None, (raw.strip() for raw in text.split(","))):
        key_id, _, encoded = item.partition(":")
        if not KEY_ID.fullmatch(key_id) or key_id in keys:
            msg = "an encryption key needs an id of its own: 1-32 letters, digits, - or _"
            raise ValueError(msg)
        keys[key_id] = _key_bytes(key_id, encoded)
    if not keys:
        msg = "the ring holds no encryption key"
        raise ValueError(msg)
    return KeyRing(in_use=next(iter(keys)), keys=keys)


def _key_bytes(key_id: str, encoded: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        msg = f"encryption key {key_id!r} is not the base64 of 32 bytes"
        raise ValueError(msg)
    return key
