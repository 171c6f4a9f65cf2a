"""Secrets of an installation: from the environment, else made once in the data directory."""

import base64
import os
import secrets
from pathlib import Path

from bridgeproject.env import env_secret, env_str


def secret_key(data_dir: Path) -> str:
    """Return Django's SECRET_KEY."""
    return env_secret("BRIDGE_SECRET_KEY") or _made_once(data_dir / "secret_key", secrets.token_urlsafe(50))


def encryption_keys(data_dir: Path) -> str:
    """Return the key ring: comma-separated `ID:BASE64` items, the one in use first."""
    fresh = f"k1:{base64.b64encode(secrets.token_bytes(32)).decode()}"
    return env_secret("BRIDGE_ENCRYPTION_KEYS") or _made_once(data_dir / "encryption_keys", fresh)


def encryption_keys_file(data_dir: Path) -> Path | None:
    """Return the file that holds the key ring; None when the environment itself holds it."""
    if env_str("BRIDGE_ENCRYPTION_KEYS"):
        return None
    named = env_str("BRIDGE_ENCRYPTION_KEYS_FILE")
    return Path(named) if named else data_dir / "encryption_keys"


def _made_once(path: Path, fresh: str) -> str:
    """Read the file; write `fresh` into it first when it isn't there. Two processes at once agree."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text(encoding="utf-8").strip()
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(fresh + "\n")
    return fresh
