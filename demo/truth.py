"""What really happened, attempt by attempt: the gateway's ledger is held against it."""

import os
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

#: Attempts that are kept for `/truth`; its totals never forget.
MAX_ATTEMPTS = 20_000


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One call that reached the upstream. Tokens as a provider would bill them."""

    number: int
    #: The `x-request-id` that came with the call.
    request_id: str | None
    key_sha256: str
    dialect: str
    model: str
    stream: bool
    script: str
    started_at: float
    status: int | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    #: Tokens that were made, the one on its way when the answer ended included.
    output_tokens: int = 0
    #: Tokens that the kernel took.
    sent_tokens: int = 0
    reasoning_tokens: int = 0
    usage_sent: bool = False
    #: The last byte of a good answer was taken.
    finished: bool = False
    #: Why it ended: done, client_gone, stopped, refused, or the name of the fault; None while it runs.
    ended: str | None = None


@dataclass(slots=True)
class Truth:
    """All attempts since the start or the last reset."""

    path: Path | None = None
    fsync: bool = False
    attempts: deque[Attempt] = field(default_factory=lambda: deque(maxlen=MAX_ATTEMPTS))
    _past: dict[str, int] = field(default_factory=dict)
    _count: int = 0
    _file: int | None = None

    def __post_init__(self) -> None:
        if self.path is not None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def begin(self, **facts: Any) -> Attempt:
        self._count += 1
        attempt = Attempt(number=self._count, **facts)
        if len(self.attempts) == MAX_ATTEMPTS:
            self._past = _sums([self.attempts[0]], self._past)
        self.attempts.append(attempt)
        return attempt

    def end(self, attempt: Attempt, reason: str) -> None:
        """Close an attempt; only the first reason counts."""
        if attempt.ended is not None:
            return
        attempt.ended = reason
        if self._file is not None:
            os.write(self._file, orjson.dumps(asdict(attempt)) + b"\n")
            if self.fsync:
                os.fsync(self._file)

    def end_all(self, reason: str) -> None:
        for attempt in self.attempts:
            self.end(attempt, reason)

    def reset(self) -> None:
        """Forget what is over. Running attempts stay, so that none goes missing."""
        running = [attempt for attempt in self.attempts if attempt.ended is None]
        self.attempts.clear()
        self.attempts.extend(running)
        self._past = {}

    def report(self) -> dict[str, Any]:
        return {
            "totals": _sums(self.attempts, self._past),
            "attempts": [asdict(attempt) for attempt in self.attempts],
        }


def _sums(attempts: Iterable[Attempt], past: dict[str, int]) -> dict[str, int]:
    sums = past | {"attempts": past.get("attempts", 0), "open": 0}
    for attempt in attempts:
        for name, value in (
            ("attempts", 1),
            ("open", attempt.ended is None),
            ("finished", attempt.finished),
            ("usage_frames", attempt.usage_sent),
            ("input_tokens", attempt.input_tokens),
            ("cached_tokens", attempt.cached_tokens),
            ("output_tokens", attempt.output_tokens),
            ("sent_tokens", attempt.sent_tokens),
            ("reasoning_tokens", attempt.reasoning_tokens),
        ):
            sums[name] = sums.get(name, 0) + int(value)
    return sums
