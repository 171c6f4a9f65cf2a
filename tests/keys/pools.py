"""Credentials, routes and a clock to decide about, without a database."""

from dataclasses import dataclass, field
from typing import Any

from keys.directory import Directory
from keys.dispatch import Attempt, Claim, Dispatcher, Kind, Outcome, Refusal
from keys.entries import CredentialEntry, RouteEntry, Target, UpstreamEntry

NOW = 1_800_000_000.0
OK = Outcome(kind=Kind.OK, status=200, ttft_ms=500)


def credential(number: int = 1, **values: Any) -> CredentialEntry:
    defaults: dict[str, Any] = {
        "id": number,
        "upstream_id": 1,
        "label": f"key-{number}",
        "last_four": "",
        "enabled": True,
        "draining": False,
        "priority": 0,
        "weight": 1,
        "rpm": None,
        "tpm": None,
        "concurrency": None,
        "opened": f"sk-{number}",
    }
    return CredentialEntry(**defaults | values)


def credentials(count: int, **values: Any) -> tuple[CredentialEntry, ...]:
    return tuple(credential(number, **values) for number in range(1, count + 1))


def upstream(number: int = 1) -> UpstreamEntry:
    return UpstreamEntry(
        id=number,
        name=f"upstream-{number}",
        dialect="openai_chat",
        base_url=f"https://{number}.example/v1",
        profile="",
        profile_overrides={},
        connect_timeout_s=10,
        first_byte_timeout_s=60,
        idle_timeout_s=60,
        total_timeout_s=600,
    )


def target(upstream_number: int = 1, model: str = "m", weight: int = 1) -> Target:
    return Target(upstream=upstream(upstream_number), model_name=model, model=None, weight=weight)


def route(*targets: Target, fallbacks: tuple[Target, ...] = ()) -> RouteEntry:
    return RouteEntry(alias="m", targets=targets or (target(),), fallbacks=fallbacks)


def answer(status: int, text: str = "", **headers: str) -> Outcome:
    """An upstream's answer; header names with _ for -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Outcome(kind=Kind.HTTP_ERROR, status=status, error_text=text, headers=named)


@dataclass
class Clock:
    """Time that moves when told."""

    time: float = NOW

    def __call__(self) -> float:
        return self.time


class Shelf(Directory):
    """A directory that was filled by hand."""

    def __init__(self, by_upstream: dict[int, tuple[CredentialEntry, ...]]) -> None:
        self.by_upstream = by_upstream

    def credentials(self, upstream_id: int) -> tuple[CredentialEntry, ...]:
        return self.by_upstream.get(upstream_id, ())


@dataclass
class Pool:
    """A dispatcher alone in the world, with scripted answers."""

    clock: Clock
    dispatcher: Dispatcher
    #: What a credential answers; OK when nothing is said.
    answers: dict[int, Outcome] = field(default_factory=dict)
    #: The credentials that were called, in order.
    calls: list[int] = field(default_factory=list)

    def request(self, to: RouteEntry | None = None, **words: Any) -> Outcome | Refusal:
        """Serve one request; return its last outcome, or the refusal."""
        attempts = self.dispatcher.attempts(to or route(), **words)
        outcome = None
        try:
            attempt = next(attempts)
            while True:
                outcome = self._call(attempt)
                if outcome.kind is Kind.OK:
                    attempts.close()
                    return outcome
                attempt = attempts.send(outcome)
        except StopIteration as stop:
            ending: Outcome | Refusal | None = stop.value or outcome
            assert ending is not None
            return ending

    def hold(self, to: RouteEntry | None = None, **words: Any) -> Claim:
        """Begin a request and leave it open."""
        attempts = self.dispatcher.attempts(to or route(), **words)
        attempt = next(attempts)
        claim = self.dispatcher.claim(attempt)
        self.calls.append(attempt.credential.id)
        attempts.close()
        return claim

    def _call(self, attempt: Attempt) -> Outcome:
        claim = self.dispatcher.claim(attempt)
        self.calls.append(attempt.credential.id)
        outcome = self.answers.get(attempt.credential.id, OK)
        claim.release(outcome)
        return outcome


def pool(*entries: CredentialEntry, more: dict[int, tuple[CredentialEntry, ...]] | None = None) -> Pool:
    """Make a pool of upstream 1's credentials; `more` are those of other upstreams."""
    clock = Clock()
    return Pool(clock, Dispatcher("", Shelf({1: entries} | (more or {})), now=clock, seed=1))
