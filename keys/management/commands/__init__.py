"""Commands: each prints one useful line, or an error on stderr with a non-zero status."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import DatabaseError


@contextmanager
def one_line() -> Iterator[None]:
    """Turn what the operator can mend into one line on stderr."""
    try:
        yield
    except ValidationError as exc:
        raise CommandError("; ".join(_lines(exc))) from exc
    except DatabaseError as exc:
        msg = f"the database refused: {str(exc).strip().splitlines()[0]}"
        raise CommandError(msg) from exc


def _lines(error: ValidationError) -> list[str]:
    if hasattr(error, "error_dict"):
        return [f"{field}: {message}" for field, messages in error.message_dict.items() for message in messages]
    return list(error.messages)
