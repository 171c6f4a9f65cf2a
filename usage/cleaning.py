"""The one place where strings and numbers of strangers become storable.

Postgres refuses NUL and lone surrogates, columns have lengths, and bigint ends at 2**63 - 1. Whatever a client
or an upstream said, what leaves here can be stored, so that no record is lost and none takes its batch along.
"""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
BIGINT_MAX = 2**63 - 1


def clean_text(value: object, limit: int) -> str:
    """Return `value` as a string that fits a column of `limit` characters; None becomes ""."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if len(text) > limit:
        text = text[:limit]
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", REPLACEMENT).encode("utf-8", "surrogatepass").decode("utf-8", "replace")[:limit]


def clean_code(value: object, limit: int) -> str:
    """Return a code of ours in ASCII, so that its bytes are as few as its characters: an index of them has a limit."""
    return clean_text(value, limit).encode("ascii", "replace").decode()


def clean_id(value: object) -> int | None:
    """Return an id that fits a bigint, else None."""
    return value if isinstance(value, int) and 0 <= value <= BIGINT_MAX else None


def clean_number(value: object, limit: int = 2**31 - 1) -> int | None:
    """Return a count or a time cut to 0..`limit`; None when it isn't a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return int(min(max(value, 0), limit))
