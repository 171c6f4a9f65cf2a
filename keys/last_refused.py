"""The last refusal of each client token, so that its member can be told what is wrong.

Workers gather them in memory and write what they have about once a second, a row per token at most, and never on a
request's path. Requests without a token of ours leave nothing.
"""

from dataclasses import asdict, dataclass, field
from time import monotonic

import orjson

from keys.gathered import GatheredSoon

#: More tokens than these are not held at once.
TOKENS_MAX = 10_000
#: Column -> its length. What is longer is cut off.
TEXTS = {
    "request_id": 64,
    "error_type": 64,
    "message": 500,
    "method": 16,
    "path": 200,
    "client_name": 64,
    "client_version": 32,
}
_COLUMNS = ("status", *TEXTS)
#: (rows): keep those that are newer than what is there; tokens that are gone are left out. Rows are locked in order.
WRITE = f"""
INSERT INTO keys_tokenrefusal (token_id, at, {", ".join(_COLUMNS)})
SELECT r.token_id, now() - r.age_s * interval '1 second', {", ".join(f"r.{name}" for name in _COLUMNS)}
FROM json_to_recordset(%s::json) AS r(
    token_id bigint, age_s double precision, status smallint, {", ".join(f"{name} text" for name in TEXTS)})
JOIN keys_clienttoken AS t ON t.id = r.token_id
ORDER BY r.token_id
ON CONFLICT (token_id) DO UPDATE SET at = excluded.at, {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
    WHERE keys_tokenrefusal.at < excluded.at"""  # noqa: S608  (names of our own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that was turned away. Strings may hold anything: they are cleaned before they are written."""

    request_id: str
    status: int
    error_type: str
    message: str
    method: str
    path: str
    client_name: str = ""
    client_version: str = ""
    #: On this process's clock.
    at: float = field(default_factory=monotonic)


class LastRefused(GatheredSoon[int, Refused]):
    """Gathers the refusals that one worker gave."""

    what = "refusals of tokens"
    statement = WRITE.encode()

    def note(self, token_id: int, refused: Refused) -> None:
        if token_id in self._seen or len(self._seen) < TOKENS_MAX:
            self._keep(token_id, refused)

    def _place(self, seen: dict[int, Refused]) -> str:
        return _rows(seen)


def _rows(seen: dict[int, Refused]) -> str:
    now = monotonic()
    rows = []
    for token_id, refused in seen.items():
        values = asdict(refused)
        texts = {name: _clean(values[name])[:length] for name, length in TEXTS.items()}
        rows.append({"token_id": token_id, "age_s": now - refused.at, "status": refused.status, **texts})
    return orjson.dumps(rows).decode()


def _clean(text: str) -> str:
    """Take out what Postgres or JSON can't store."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
