"""The form of an exported setup: upstreams with their models and credentials, and routes, as YAML.

A field that isn't known is refused rather than ignored. Secrets are left out, unless they are sealed under a
passphrase: AES-256-GCM, the key made by scrypt, the associated data naming upstream and label.
"""

import base64
import binascii
import secrets as random
from typing import Annotated, Any, Literal, Self

import yaml
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

FILE_BYTES_MAX = 4 * 1024 * 1024
PASSPHRASE_CHARS_MIN = 12
SALT_BYTES = 16
NONCE_BYTES = 12
#: Takes about 0.1 s and 64 MB; https://datatracker.ietf.org/doc/html/rfc7914 (2016-08).
SCRYPT = {"n": 2**16, "r": 8, "p": 1}

Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class BadSetup(ValueError):
    """The file makes no sense, or a secret in it doesn't open; the text says where."""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ModelPart(Part):
    name: str
    context_window: Positive | None = None
    max_output_tokens: Positive | None = None
    tools: Literal["native", "emulated"] = "native"
    vision: bool | None = None
    pdf: bool | None = None
    reasoning: bool | None = None
    compaction: Literal["off", "trim", "summary"] = "off"
    compact_above: Annotated[int, Field(ge=20, le=100)] = 80
    compact_to: Annotated[int, Field(ge=10, le=90)] = 40
    summary_alias: str = ""
    continue_rounds: Annotated[int, Field(ge=0, le=4)] = 0

    @model_validator(mode="after")
    def _compaction_makes_sense(self) -> Self:
        if self.compaction != "off" and self.context_window is None:
            msg = "compaction needs a context_window"
            raise ValueError(msg)
        if self.compact_to >= self.compact_above:
            msg = "compact_to must be less than compact_above"
            raise ValueError(msg)
        return self


class CredentialPart(Part):
    label: str
    enabled: bool = True
    priority: int = 0
    weight: Positive = 1
    rpm: Positive | None = None
    tpm: Positive | None = None
    concurrency: Positive | None = None
    #: Sealed under the passphrase.
    secret: str | None = None


class UpstreamPart(Part):
    name: str
    base_url: str
    dialect: Literal["openai_chat", "openai_responses", "anthropic"] = "openai_chat"
    profile: str = ""
    profile_overrides: dict[str, Any] = {}
    connect_timeout_s: Seconds = 10
    first_byte_timeout_s: Seconds = 120
    idle_timeout_s: Seconds = 120
    total_timeout_s: Seconds = 3600
    enabled: bool = True
    models: list[ModelPart] = []
    credentials: list[CredentialPart] = []


class TargetPart(Part):
    upstream: str
    model: str = ""
    position: Whole = 0
    weight: Positive = 1


class RoutePart(Part):
    alias: str
    enabled: bool = True
    targets: Annotated[list[TargetPart], Field(min_length=1)]


class Setup(Part):
    bridge: Literal[1] = 1
    #: What the passphrase's key is made with; None where no secret is in the file.
    salt: str | None = None
    upstreams: list[UpstreamPart] = []
    routes: list[RoutePart] = []


class Vault:
    """Seals and opens the secrets of one file."""

    def __init__(self, passphrase: str, salt: bytes | None = None) -> None:
        if len(passphrase) < PASSPHRASE_CHARS_MIN:
            msg = f"a passphrase has {PASSPHRASE_CHARS_MIN} characters or more"
            raise BadSetup(msg)
        self.salt = salt or random.token_bytes(SALT_BYTES)
        self._key = Scrypt(salt=self.salt, length=32, **SCRYPT).derive(passphrase.encode())

    def seal(self, secret: str, upstream: str, label: str) -> str:
        nonce = random.token_bytes(NONCE_BYTES)
        sealed = AESGCM(self._key).encrypt(nonce, secret.encode(), _place(upstream, label))
        return base64.b64encode(nonce + sealed).decode()

    def open(self, sealed: str, upstream: str, label: str) -> str:
        try:
            raw = base64.b64decode(sealed, validate=True)
            return AESGCM(self._key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], _place(upstream, label)).decode()
        except (InvalidTag, binascii.Error, ValueError) as exc:
            msg = f"the secret of {upstream}/{label} doesn't open: another passphrase?"
            raise BadSetup(msg) from exc


def write_setup(setup: Setup) -> str:
    """Render a setup, leaving out what is as by default."""
    plain = {"bridge": 1, **setup.model_dump(exclude_defaults=True)}
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))


def read_setup(text: str) -> Setup:
    """Read a setup.

    Raises:
        BadSetup: It isn't one.
    """
    if len(text.encode("utf-8", "replace")) > FILE_BYTES_MAX:
        msg = "the file is too large"
        raise BadSetup(msg)
    if "&" in text and "*" in text and _has_alias(text):
        msg = "YAML anchors and aliases are not taken"
        raise BadSetup(msg)
    try:
        return Setup.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        msg = f"not YAML: {getattr(exc, 'problem', 'unreadable')}{f' in line {mark.line + 1}' if mark else ''}"
        raise BadSetup(msg) from exc
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        msg = f"{where}: {first['msg']}"
        raise BadSetup(msg) from exc


def _has_alias(text: str) -> bool:
    """Tell whether the text refers back to itself: a few such lines can stand for gigabytes."""
    try:
        return any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError:
        return False


def _place(upstream: str, label: str) -> bytes:
    return f"bridge setup:{upstream}:{label}".encode()
