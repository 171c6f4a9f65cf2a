"""Hands out attempts: the worker's mirror of loads and states around the pure decisions of `keys.pool`.

Everything here is synchronous and cheap, and runs on the event loop; what changes is carried to the other workers
by `keys.store` in its own task.
"""

import asyncio
import contextlib
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keys.directory import Directory
from keys.entries import CredentialEntry, ModelEntry, RouteEntry, Target, UpstreamEntry
from keys.pool.board import Board, Choice, Record, Saturated
from keys.pool.board import Shared as Known
from keys.pool.budget import RetryBudget
from keys.pool.facts import Kind, Outcome
from keys.pool.failover import Refusal, failover
from keys.pool.health import Health, after_exhaustion, after_failure, after_success
from keys.pool.trial import About, Finding, Trial, against_model
from keys.pool.verdicts import Cause, State, Verdict, judge
from keys.store import Figures, Shared, StateKey, StateStore, Subject

REFRESH_S = 1.0
SESSIONS_MAX = 10_000
#: A prompt cache is cold after this; most upstreams keep it for five minutes.
SESSION_S = 600.0
#: 429s on this many credentials within so many seconds mean that the account or address is limited.
THROTTLE_CREDENTIALS = 3
THROTTLE_S = 10.0
KINDS_MAX = 16
#: Local news younger than this is not overruled by what was read from Postgres.
NEWS_S = 2.0


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

    def release(self, outcome: Outcome) -> None:
        """Tell how it ended. Only the first call counts."""
        if self._is_open:
            self._is_open = False
            self._dispatcher.settle(self.attempt, outcome, self.sent_at)


class Dispatcher:
    """A worker's view of all pools."""

    def __init__(
        self,
        directory: Directory,
        *,
        dsn: str = "",
        worker_id: str = "",
        now: Callable[[], float] | None = None,
        seed: int | None = None,
    ) -> None:
        """Without a `dsn` nothing is shared: the worker is alone."""
        self._directory = directory
        self._now = now or directory.now
        self._random = random.Random(seed)  # noqa: S311  (jitter and order, nothing secret)
        self._known = Known()
        self._upstreams: dict[tuple[int, str], Health] = {}
        self._upstream_probes: set[tuple[int, str]] = set()
        self._boards: dict[int, tuple[tuple[CredentialEntry, ...], Board]] = {}
        self._sessions: OrderedDict[tuple[str, int, str], tuple[int, float]] = OrderedDict()
        self._kinds: dict[StateKey, deque[str]] = {}
        self._throttles: dict[int, deque[tuple[float, int]]] = {}
        self._budget = RetryBudget()
        self._store = StateStore(dsn, worker_id, hear=self._hear, tell=self._loads, now=self._now) if dsn else None
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._store is not None:
            await self._store.start()
        self._ticker = asyncio.create_task(self._tick(), name="keys windows")

    async def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        if self._store is not None:
            await self._store.close()

    def attempts(
        self, route: RouteEntry, *, session_id: str = "", estimate_tokens: int = 0, kind: str = ""
    ) -> Generator[Attempt, Outcome, Refusal | None]:
        """Yield the attempts to make for a request; be sent the outcome of each, after its claim's release.

        Take the claim right after an attempt is yielded, before anything is awaited. Close the generator when
        the request is over.

        Args:
            session_id: Keeps a conversation on the credential where its prompt cache is warm; "" for none.
            estimate_tokens: About how many the request will use, for the token limits.
            kind: The same for the same prompt, so that one that fails everywhere counts once; "" for unknown.

        Returns:
            None when the last outcome is the answer, else what to tell the client instead.
        """
        trial = Trial()

        def choose(target: Target, excluded: Collection[int]) -> Choice | Saturated:
            return self._choose(target, excluded, session_id, estimate_tokens)

        plan = failover(self._order(route), choose, budget=self._budget, now=self._now)
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
                    session_id=session_id,
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
            self._count(trial.close(), kind)

    def claim(self, attempt: Attempt) -> Claim:
        """Count an attempt as under way, before it is sent."""
        now = self._now()
        credential_id, model, upstream_id = attempt.credential.id, attempt.model_name, attempt.upstream.id
        self._known.load(credential_id).claim(attempt.estimate_tokens, now=now)
        for name in ("", model):
            if self._known.health(credential_id, name).needs_probe(now):
                self._known.probes.add((credential_id, name))
            if self._upstream_health(upstream_id, name).needs_probe(now):
                self._upstream_probes.add((upstream_id, name))
        self._update(upstream_id, credential_id, model, now)
        if attempt.session_id:
            self._remember(attempt, now)
        return Claim(self, attempt, now)

    def settle(self, attempt: Attempt, outcome: Outcome, sent_at: float) -> None:
        """Count an attempt as over and draw the conclusions; called by its claim."""
        now = self._now()
        credential_id, model, upstream_id = attempt.credential.id, attempt.model_name, attempt.upstream.id
        self._known.load(credential_id).release(_correction(attempt, outcome), now=now)
        self._end_probes(attempt)
        verdict = judge(outcome, now=now)
        if verdict.cause is Cause.OK:
            self.restore(attempt, sent_at)
            self._exhaust(attempt, verdict, now)
        self._note_record(attempt, outcome, verdict)
        findings = attempt.trial.note(
            credential_id=credential_id, upstream_id=upstream_id, model=model, verdict=verdict
        )
        self._count(findings, attempt.kind)
        self._update(upstream_id, credential_id, model, now)

    def restore(self, attempt: Attempt, sent_at: float) -> None:
        """Take a success into account: what was failing or on trial serves again at once."""
        now = self._now()
        credential_id, upstream_id = attempt.credential.id, attempt.upstream.id
        for name in ("", attempt.model_name):
            for key in ((Subject.CREDENTIAL, credential_id, name), (Subject.UPSTREAM, upstream_id, name)):
                self._kinds.pop(key, None)
                if (health := self._stored(key)) is not None:
                    self._put(key, after_success(health, now=now, sent_at=sent_at), health)
        if (throttle := self._throttles.get(upstream_id)) and sent_at >= throttle[0][0]:
            throttle.clear()
        if self._store is not None:
            self._store.note_success(credential_id, now)

    def health(self, credential_id: int, model: str = "") -> Health:
        """Return what this worker knows of a credential."""
        return self._known.health(credential_id, model)

    def in_flight(self, credential_id: int) -> int:
        """Count the attempts open now, those of other workers included."""
        load = self._known.load(credential_id)
        return load.in_flight + load.others_in_flight

    # Choosing

    def _order(self, route: RouteEntry) -> list[Target]:
        """Put the sharing targets into a random order by weight, the fallbacks behind them."""
        if len(route.targets) == 1:
            return [*route.targets, *route.fallbacks]
        lots = [(self._random.random() ** (1 / target.weight), target) for target in route.targets]
        return [target for _, target in sorted(lots, key=lambda lot: -lot[0])] + list(route.fallbacks)

    def _choose(self, target: Target, excluded: Collection[int], session_id: str, tokens: int) -> Choice | Saturated:
        now = self._now()
        upstream_id = target.upstream.id
        is_probe = False
        for name in ("", target.model_name):
            health = self._upstreams.get((upstream_id, name))
            if health is None or health.state is State.READY:
                continue
            if health.is_resting(now):
                return Saturated(until=health.until, is_rate_limited=health.cause is Cause.THROTTLED)
            if health.needs_probe(now):
                if (upstream_id, name) in self._upstream_probes:
                    return Saturated(until=now + 1)
                is_probe = True
        choice = self._board(target.upstream.id, now).choose(
            target.model_name,
            now=now,
            tokens=tokens,
            exclude=excluded,
            session=session_id,
            home=self._home(session_id, target, now),
        )
        return replace(choice, is_probe=True) if is_probe and isinstance(choice, Choice) else choice

    def _board(self, upstream_id: int, now: float) -> Board:
        """Return the upstream's board, made anew when its credentials were read anew."""
        credentials = self._directory.credentials(upstream_id)
        known = self._boards.get(upstream_id)
        if known is not None and known[0] is credentials:
            return known[1]
        board = Board(credentials, self._known)
        board.start(now)
        self._boards[upstream_id] = (credentials, board)
        return board

    def _home(self, session_id: str, target: Target, now: float) -> int | None:
        known = self._sessions.get((session_id, target.upstream.id, target.model_name)) if session_id else None
        return known[0] if known is not None and now - known[1] < SESSION_S else None

    def _remember(self, attempt: Attempt, now: float) -> None:
        key = (attempt.session_id, attempt.upstream.id, attempt.model_name)
        self._sessions[key] = (attempt.credential.id, now)
        self._sessions.move_to_end(key)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

    # Concluding

    def _count(self, findings: list[Finding], kind: str) -> None:
        for finding in findings:
            self._count_one(finding, kind)

    def _count_one(self, finding: Finding, kind: str) -> None:
        if not finding.is_proven and finding.about is About.CREDENTIAL_MODEL:
            model_health = self._upstream_health(finding.upstream_id, finding.model)
            if model_health.failures and finding.verdict.cause is not Cause.NO_ACCESS:
                finding = against_model(finding)
        key = _key(finding)
        if not finding.is_proven and self._is_known_kind(key, finding, kind):
            return
        now = self._now()
        health = self._stored(key) or Health()
        may_rest = finding.about is not About.CREDENTIAL_MODEL or self._may_eject(finding, now)
        self._put(
            key,
            after_failure(health, finding.verdict, now=now, jitter=self._random.random(), may_rest=may_rest),
            health,
        )
        if finding.verdict.cause is Cause.RATE_LIMIT:
            self._note_throttle(finding, now)

    def _is_known_kind(self, key: StateKey, finding: Finding, kind: str) -> bool:
        """Tell whether the same prompt already counted against the same thing; note it otherwise."""
        if not kind or finding.about is About.CREDENTIAL:
            return False
        kinds = self._kinds.setdefault(key, deque(maxlen=KINDS_MAX))
        if kind in kinds:
            return True
        kinds.append(kind)
        return False

    def _may_eject(self, finding: Finding, now: float) -> bool:
        """Keep at least half of the pool in use."""
        board = self._board(finding.upstream_id, now)
        return board.resting(finding.model, now) + 1 <= board.enabled // 2

    def _note_throttle(self, finding: Finding, now: float) -> None:
        recent = self._throttles.setdefault(finding.upstream_id, deque())
        recent.append((now, finding.credential_id))
        while recent[0][0] < now - THROTTLE_S:
            recent.popleft()
        if len({credential_id for _, credential_id in recent}) < THROTTLE_CREDENTIALS:
            return
        recent.clear()
        key = (Subject.UPSTREAM, finding.upstream_id, "")
        health = self._stored(key) or Health()
        verdict = replace(finding.verdict, cause=Cause.THROTTLED)
        self._put(key, after_failure(health, verdict, now=now, jitter=self._random.random()), health)

    def _exhaust(self, attempt: Attempt, verdict: Verdict, now: float) -> None:
        seconds = verdict.announced.exhausted_for_s
        if seconds:
            key = (Subject.CREDENTIAL, attempt.credential.id, "")
            health = self._stored(key) or Health(last_success_at=now)
            self._put(key, after_exhaustion(health, seconds, now=now, jitter=self._random.random()), health)

    def _note_record(self, attempt: Attempt, outcome: Outcome, verdict: Verdict) -> None:
        if verdict.cause in (Cause.CLIENT_FAULT, Cause.CLIENT_GONE):
            return
        record = self._known.records.setdefault((attempt.credential.id, attempt.model_name), Record())
        record.note(is_ok=verdict.cause is Cause.OK, ttft_ms=outcome.ttft_ms if outcome.kind is Kind.OK else None)

    def _end_probes(self, attempt: Attempt) -> None:
        for name in ("", attempt.model_name):
            self._known.probes.discard((attempt.credential.id, name))
            self._upstream_probes.discard((attempt.upstream.id, name))

    # Keeping

    def _upstream_health(self, upstream_id: int, model: str) -> Health:
        return self._upstreams.get((upstream_id, model)) or Health()

    def _stored(self, key: StateKey) -> Health | None:
        subject, owner_id, model = key
        healths = self._known.healths if subject is Subject.CREDENTIAL else self._upstreams
        return healths.get((owner_id, model))

    def _put(self, key: StateKey, health: Health, before: Health) -> None:
        subject, owner_id, model = key
        healths = self._known.healths if subject is Subject.CREDENTIAL else self._upstreams
        healths[owner_id, model] = health
        if self._store is not None and health.changed_at != before.changed_at:
            self._store.put(key, health)
        if subject is Subject.CREDENTIAL:
            self._update_everywhere(owner_id, model, self._now())

    def _update(self, upstream_id: int, credential_id: int, model: str, now: float) -> None:
        board = self._board(upstream_id, now)
        board.update(credential_id, now=now)
        board.update_model(credential_id, model, now=now)

    def _update_everywhere(self, credential_id: int, model: str, now: float) -> None:
        for _, board in self._boards.values():
            board.update(credential_id, now=now)
            if model:
                board.update_model(credential_id, model, now=now)

    def _loads(self) -> dict[int, Figures]:
        now = self._now()
        loads = {}
        for credential_id, load in self._known.loads.items():
            load.expire(now)
            if not load.is_idle:
                loads[credential_id] = (load.in_flight, load.sends, load.tokens)
        return loads

    def _hear(self, shared: Shared) -> None:
        """Take what Postgres holds, except where this worker has fresher news."""
        now = self._now()
        self._hear_states(shared, now)
        for credential_id in {*shared.others, *self._known.loads}:
            in_flight, sends, tokens = shared.others.get(credential_id, (0, 0, 0))
            load = self._known.load(credential_id)
            load.hear(in_flight=in_flight, sends=sends, tokens=tokens, workers=shared.workers)
            self._update_everywhere(credential_id, "", now)

    def _hear_states(self, shared: Shared, now: float) -> None:
        mirrors = ((Subject.CREDENTIAL, self._known.healths), (Subject.UPSTREAM, self._upstreams))
        for subject, healths in mirrors:
            told = {(key[1], key[2]): health for key, health in shared.states.items() if key[0] is subject}
            for place in {*told, *healths}:
                mine, theirs = healths.get(place), told.get(place)
                if theirs == mine or not self._is_news(subject, place, mine, theirs, shared):
                    continue
                if theirs is None:
                    del healths[place]
                else:
                    healths[place] = theirs
                if subject is Subject.CREDENTIAL:
                    self._update_everywhere(place[0], place[1], now)

    def _is_news(
        self, subject: Subject, place: tuple[int, str], mine: Health | None, theirs: Health | None, shared: Shared
    ) -> bool:
        if self._store is not None and self._store.is_pending((subject, *place)):
            return False
        if mine is None:
            return True
        if theirs is None:
            return mine.changed_at < shared.read_at - NEWS_S
        return theirs.changed_at > mine.changed_at

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            for _, board in self._boards.values():
                board.refresh(self._now())


def _key(finding: Finding) -> StateKey:
    match finding.about:
        case About.CREDENTIAL:
            return Subject.CREDENTIAL, finding.credential_id, ""
        case About.CREDENTIAL_MODEL:
            return Subject.CREDENTIAL, finding.credential_id, finding.model
        case About.UPSTREAM:
            return Subject.UPSTREAM, finding.upstream_id, ""
        case About.UPSTREAM_MODEL:
            return Subject.UPSTREAM, finding.upstream_id, finding.model


def _correction(attempt: Attempt, outcome: Outcome) -> int:
    """Return what an attempt used beyond its estimate; what the client left behind stays estimated."""
    if outcome.tokens:
        return outcome.tokens - attempt.estimate_tokens
    return 0 if outcome.kind in (Kind.CLIENT_GONE, Kind.TRUNCATED) else -attempt.estimate_tokens
