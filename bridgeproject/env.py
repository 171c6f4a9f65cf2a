"""Read `BRIDGE_*` variables from the environment, loudly when they make no sense."""

import os
from collections.abc import Sequence
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

TRUE_WORDS = {"1", "true", "yes", "on"}
FALSE_WORDS = {"0", "false", "no", "off", ""}


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def env_bool(name: str, *, default: bool = False) -> bool:
    word = os.environ.get(name)
    if word is None:
        return default
    if word.strip().lower() in TRUE_WORDS:
        return True
    if word.strip().lower() in FALSE_WORDS:
        return False
    msg = f"{name} is neither true nor false: {word!r}"
    raise ImproperlyConfigured(msg)


def env_int(name: str, default: int) -> int:
    number = os.environ.get(name, "").strip()
    if not number:
        return default
    try:
        return int(number)
    except ValueError:
        msg = f"{name} is not a whole number: {number!r}"
        raise ImproperlyConfigured(msg) from None


def env_list(name: str) -> list[str]:
    """Split a comma-separated variable; blanks around and between the commas are dropped."""
    return [item for raw in os.environ.get(name, "").split(",") if (item := raw.strip())]


def env_secret(name: str) -> str:
    """Return the variable, or the content of the file that `NAME_FILE` names; "" when neither is set."""
    if value := os.environ.get(name, "").strip():
        return value
    if path := os.environ.get(f"{name}_FILE", "").strip():
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as exc:
            msg = f"{name}_FILE names a file that can't be read: {path} ({exc.strerror})"
            raise ImproperlyConfigured(msg) from exc
    return ""


def data_dir_from(arguments: Sequence[str]) -> str | None:
    """Find `--data-dir DIR` or `--data-dir=DIR` among command-line words; None when it isn't there."""
    for place, word in enumerate(arguments):
        if word == "--data-dir" and place + 1 < len(arguments):
            return arguments[place + 1]
        if word.startswith("--data-dir="):
            return word.partition("=")[2]
    return None
