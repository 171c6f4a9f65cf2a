"""Hands out attempts: the worker's side of the pure decisions of `keys.pool`.

Everything here is synchronous and cheap, and runs on the event loop; what changes is carried to the other workers
by `keys.store` in its own task.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keys.conclusions import Conclusions
from keys.directory import Directory
from keys.entries import CredentialEntry, ModelEntry, RouteEntry, Target, UpstreamEntry
from keys.mirror import Mirror
from keys.pool.board import Choice, Saturated
from keys.pool.budget import RetryBudget
from keys.pool.facts import Kind, Outcome
from keys.pool.failover import Reason, Refusal, failover
from keys.pool.health import READY, Health
from keys.pool.score import Record
from keys.pool.trial import Trial
from keys.pool.verdicts import SHAREABLE, Cause, State, judge
from keys.tasks import end_task

__all__ = ["Attempt", "Claim", "Dispatcher", "Kind", "Outcome", "Reason", "Refusal"]

REFRESH_S = 1.0
#: Failures that say something about how well a credential serves a model.
TELLING = SHAREABLE - {Cause.NO_ACCESS}
SESSIONS_MAX = 10_000
#: A prompt cache is cold after this; most upstreams keep it for five minutes.
SESSION_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request to one upstream with one credential."""

    upstream: UpstreamEntry
    model_name: str
    model: ModelEntry | None
    credential: CredentialEntry
    #: 1 for the request's first.
    number: int
    is_probe: bool
    #: Why this credential: compact and ready for JSON.
    decision: Mapping[str, Any]
    estimate_tokens: int
    session_id: str
    kind: str
    trial: Trial = field(repr=False)


class Claim:
    """An attempt under way: counted in its credential's load until released."""

    def __init__(self, dispatcher: "Dispatcher", attempt: Attempt, sent_at: float) -> None:
        self._dispatcher = dispatcher
        self.attempt = attempt
        self.sent_at = sent_at
        self._is_open = True

    def answered(self) -> None:
        """Tell that the upstream serves the attempt: what was on trial is restored before the answer ends."""
        if self._is_open:
            self._dispatcher.restore(self.attempt, self.sent_at)

    def give_back(self, *, wait_s: float, tokens: int) -> None:
        """Tell that nothing was sent: of all workers together the credential has no room for `tokens` before then."""
        if self._is_open:
            self._is_open = False
            self._dispatcher.give_back(self.attempt, wait_s=wait_s, tokens=tokens)

    def release(self, outcome: Outcome) -> None:
        """Tell how it ended. Only the first call counts."""
        if self._is_open:
            self._is_open = False
            self._dispatcher.settle(self.attempt, outcome, self.sent_at)


class Dispatcher:
    """A worker's view of all pools.

    Args:
        dsn: libpq's connection string; empty when there are no other workers to share with.
        worker_id: This process's name among the workers.
        now: Unix time; the directory's clock when left out.
        seed: Makes order and jitter repeatable, for tests.
    """

    def __init__(
        self,
        dsn: str,
        directory: Directory,
        worker_id: str = "",
        *,
        now: Callable[[], float] | None = None,
        seed: int | None = None,
    ) -> None:
        self._now = now or directory.now
        self._random = random.Random(seed)  # noqa: S311  (jitter and order, nothing secret)
        self._mirror = Mirror(directory, dsn=dsn, worker_id=worker_id, now=self._now)
        self._conclusions = Conclusions(self._mirror, now=self._now, jitter=self._random.random)
        self._sessions: OrderedDict[tuple[str, int, str], tuple[int, float]] = OrderedDict()
        self._budget = RetryBudget()
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._mirror.store is not None:
            await self._mirror.store.start()
        self._ticker = asyncio.create_task(self._tick(), name="keys windows")

    async def close(self) -> None:
        await end_task(self._ticker)
        if self._mirror.store is not None:
            await self._mirror.store.close()

    def attempts(
        self,
        route: RouteEntry,
        *,
        session_id: str | None = None,
        estimate_tokens: int = 0,
        kind: str = "",
        waited_after: int | None = None,
        asks_resting: bool = True,
        prefers: int | None = None,
    ) -> Generator[Attempt, Outcome, Refusal | None]:
        """Yield the attempts to make for a request; be sent the outcome of each, after its claim's release.

        Take the claim right after an attempt is yielded, before anything is awaited. Close the generator when no
        further attempt will be made.

        Args:
            session_id: Keeps a conversation on the credential where its prompt cache is warm.
            estimate_tokens: About how many the request will use, for the token limits.
            kind: The same for the same prompt, so that one that fails everywhere counts once; by default the same
                estimate in the same session.
            waited_after: How many attempts the request made before it waited for its turn; None when it is new.
            asks_resting: Whether a pool's only credential is asked although it rests.
            prefers: The credential that has the prompt in its cache; None for the session's.

        Returns:
            None when the last outcome is the answer, else what to tell the client instead.
        """
        session = session_id or ""
        kind = kind or (f"{session}|{estimate_tokens}" if session else "")
        trial = Trial()

        def choose(target: Target, excluded: Collection[int]) -> Choice | Saturated:
            return self._choose(target, excluded, session, estimate_tokens, prefers)

        def only_one(target: Target) -> Choice | None:
            now = self._now()
            board = self._mirror.board(target.upstream.id, now)
            return board.only_one(now=now, tokens=estimate_tokens) if asks_resting else None

        plan = failover(
            self._order(route),
            choose,
            budget=self._budget,
            now=self._now,
            only_one=only_one,
            waited_after=waited_after,
        )
        try:
            proposal = next(plan)
            while True:
                outcome = yield Attempt(
                    upstream=proposal.target.upstream,
                    model_name=proposal.target.model_name,
                    model=proposal.target.model,
                    credential=proposal.choice.credential,
                    number=proposal.number,
                    is_probe=proposal.choice.is_probe,
                    decision=proposal.choice.decision,
                    estimate_tokens=estimate_tokens,
                    session_id=session,
                    kind=kind,
                    trial=trial,
                )
                if outcome.is_sent:
                    return None
                proposal = plan.send(judge(outcome, now=self._now()))
        except StopIteration as stop:
            refusal: Refusal | None = stop.value
            return refusal
        finally:
            trial.is_last = True
            self._close_trial(trial, kind)

    def claim(self, attempt: Attempt) -> Claim:
        """Count an attempt as under way, before it is sent."""
        now = self._now()
        credential_id, model = attempt.credential.id, attempt.model_name
        attempt.trial.open += 1
        self._mirror.known.load(credential_id).claim(attempt.estimate_tokens, now=now)
        for name in ("", model):
            if self._mirror.known.health(credential_id, name).needs_probe(now):
                self._mirror.known.probes.add((credential_id, name))
            if self._mirror.upstreams.get((attempt.upstream.id, name), READY).needs_probe(now):
                self._mirror.upstream_probes.add((attempt.upstream.id, name))
        self._mirror.update(credential_id, model)
        if attempt.session_id:
            self._remember(attempt, now)
        return Claim(self, attempt, now)

    def settle(self, attempt: Attempt, outcome: Outcome, sent_at: float) -> None:
        """Count an attempt as over and draw the conclusions; called by its claim."""
        now = self._now()
        credential_id, model = attempt.credential.id, attempt.model_name
        attempt.trial.open -= 1
        self._mirror.known.load(credential_id).release(_correction(attempt, outcome), now=now)
        self._end_probes(attempt)
        verdict = judge(outcome, now=now)
        is_ok = verdict.cause is Cause.OK
        if is_ok or verdict.cause in TELLING:
            record = self._mirror.known.records.setdefault((credential_id, model), Record())
            record.note(is_ok=is_ok, ttft_ms=outcome.ttft_ms if is_ok else None)
        if is_ok:
            self.restore(attempt, sent_at)
            if verdict.announced.exhausted_for_s:
                self._conclusions.exhaust(credential_id, verdict.announced.exhausted_for_s)
        findings = attempt.trial.note(
            credential_id=credential_id, upstream_id=attempt.upstream.id, model=model, verdict=verdict
        )
        self._conclusions.count(findings, attempt.kind)
        self._close_trial(attempt.trial, attempt.kind)
        self._mirror.update(credential_id, model)

    def give_back(self, attempt: Attempt, *, wait_s: float, tokens: int) -> None:
        """Undo a claim whose attempt was not sent; called by the claim."""
        now = self._now()
        attempt.trial.open -= 1
        load = self._mirror.known.load(attempt.credential.id)
        load.give_back(attempt.estimate_tokens, now=now)
        load.fill(now + wait_s, tokens)
        self._end_probes(attempt)
        self._mirror.update(attempt.credential.id, attempt.model_name)

    def count_elsewhere(self, is_counted: bool) -> None:
        """Tell whether requests and tokens per minute are counted for all workers together."""
        self._mirror.known.is_counted_elsewhere = is_counted

    def restore(self, attempt: Attempt, sent_at: float) -> None:
        """Take a success into account; called by the attempt's claim."""
        self._conclusions.restore(
            upstream_id=attempt.upstream.id,
            credential_id=attempt.credential.id,
            model=attempt.model_name,
            sent_at=sent_at,
        )

    def health(self, credential_id: int, model: str = "") -> Health:
        """Return what this worker knows of a credential."""
        return self._mirror.known.health(credential_id, model)

    def in_flight(self, credential_id: int) -> int:
        """Count the attempts open now, those of other workers included."""
        load = self._mirror.known.load(credential_id)
        return load.in_flight + load.others_in_flight

    def _order(self, route: RouteEntry) -> list[Target]:
        """Put the sharing targets into a random order by weight, the fallbacks behind them."""
        if len(route.targets) == 1:
            return [*route.targets, *route.fallbacks]
        # Efraimidis and Spirakis: the n-th root of a random number, n being the weight.
        lots = [(self._random.random() ** (1 / target.weight), target) for target in route.targets]
        return [target for _, target in sorted(lots, key=lambda lot: -lot[0])] + list(route.fallbacks)

    def _choose(
        self, target: Target, excluded: Collection[int], session: str, tokens: int, prefers: int | None
    ) -> Choice | Saturated:
        now = self._now()
        is_probe = False
        for place in ((target.upstream.id, ""), (target.upstream.id, target.model_name)):
            health = self._mirror.upstreams.get(place)
            if health is None or health.state is State.READY:
                continue
            if health.is_resting(now):
                return Saturated(until=health.until, is_rate_limited=health.cause is Cause.THROTTLED)
            if place in self._mirror.upstream_probes:
                return Saturated(until=now + 1)
            is_probe = True
        choice = self._mirror.board(target.upstream.id, now).choose(
            target.model_name,
            now=now,
            tokens=tokens,
            exclude=excluded,
            session=session,
            home=self._home(session, target, now) if prefers is None else prefers,
        )
        return replace(choice, is_probe=True) if is_probe and isinstance(choice, Choice) else choice

    def _home(self, session: str, target: Target, now: float) -> int | None:
        known = self._sessions.get((session, target.upstream.id, target.model_name)) if session else None
        return known[0] if known is not None and now - known[1] < SESSION_S else None

    def _remember(self, attempt: Attempt, now: float) -> None:
        key = (attempt.session_id, attempt.upstream.id, attempt.model_name)
        self._sessions[key] = (attempt.credential.id, now)
        self._sessions.move_to_end(key)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

    def _close_trial(self, trial: Trial, kind: str) -> None:
        if trial.is_last and trial.open == 0:
            self._conclusions.count(trial.close(), kind)

    def _end_probes(self, attempt: Attempt) -> None:
        for name in ("", attempt.model_name):
            self._mirror.known.probes.discard((attempt.credential.id, name))
            self._mirror.upstream_probes.discard((attempt.upstream.id, name))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            self._mirror.refresh()


def _correction(attempt: Attempt, outcome: Outcome) -> int:
    """Return what an attempt used beyond its estimate; what the client left behind stays estimated."""
    if outcome.tokens:
        return outcome.tokens - attempt.estimate_tokens
    return 0 if outcome.kind in (Kind.CLIENT_GONE, Kind.TRUNCATED) else -attempt.estimate_tokens
