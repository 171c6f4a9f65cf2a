"""Finds live secrets of ours in the text of requests: client tokens by their form and digest, credentials by comparison.

Only the secrets themselves count. One that is cut in two, encoded, or written with JSON's escapes is not found.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import batched, islice
from typing import NamedTuple

from pydantic_core import SchemaValidator, core_schema

from keys.entries import CredentialEntry
from keys.tokens import FORM, is_well_formed

#: Shorter secrets are placeholders of upstreams that ask for none ("ollama", "no-key-required"), and stand in any text.
SECRET_CHARS_MIN = 20
#: So many are searched for in one go. With some more of them the search becomes ten times slower at once.
AT_ONCE = 48
#: Compared in the first go; what begins like a secret is then compared whole.
BEGINNING_CHARS = 64
#: More look-alikes of tokens in one text are nobody's leak.
LOOKALIKES_MAX = 1000

_TOKEN = re.compile(FORM.pattern.encode())


class Kind(StrEnum):
    TOKEN = "token"  # noqa: S105  (no secret)
    CREDENTIAL = "credential"


class Leak(NamedTuple):
    """A secret that was found, by its id."""

    kind: Kind
    id: int
    #: Tells a credential's secret from the next one it gets; empty for a token, which never changes.
    last_four: str = ""


class Watch:
    """Searches texts for the secrets of some credentials."""

    def __init__(self, credentials: Iterable[CredentialEntry] = ()) -> None:
        watched = [each for each in credentials if len(each.opened) >= SECRET_CHARS_MIN]
        self._groups = [(_searcher(_beginnings(group)), group) for group in batched(watched, AT_ONCE, strict=False)]

    def credentials_in(self, text: bytes) -> Iterator[Leak]:
        """Find the credentials whose secret stands in the text."""
        for searcher, group in self._groups:
            if searcher.isinstance_python(text):
                for each in group:
                    if each.opened.encode() in text:
                        yield Leak(Kind.CREDENTIAL, each.id, each.last_four)


def tokens_in(text: bytes) -> set[str]:
    """Find what can be client tokens of ours, form and checksum."""
    if not _TOKENS.isinstance_python(text):
        return set()
    found = {match[0].decode() for match in islice(_TOKEN.finditer(text), LOOKALIKES_MAX)}
    return {token for token in found if is_well_formed(token)}


def _searcher(patterns: Iterable[str]) -> SchemaValidator:
    """Make what tells whether UTF-8 holds one of these patterns.

    Pydantic's regular expressions are Rust's, which look for a few literals at once at several GB/s. Python's `in` and `re`
    take five to ten times as long for one.
    """
    return SchemaValidator(core_schema.str_schema(pattern="|".join(patterns), regex_engine="rust-regex"))


def _beginnings(group: Sequence[CredentialEntry]) -> list[str]:
    return [re.escape(each.opened[:BEGINNING_CHARS]) for each in group]


_TOKENS = _searcher([FORM.pattern])
