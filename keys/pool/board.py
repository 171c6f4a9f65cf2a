"""The credentials of one upstream, ranked by weighted load.

The score of a credential says how many open attempts of a plain credential its load is worth; the lowest serves
next. Scores stand in flat lists and are computed anew only where something changed, since a pool of 300 has to be
ranked in less than 0.1 ms. What is picked is then checked exactly: its rest, its limits.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest
from math import inf
from operator import add
from typing import Any
from zlib import crc32

from keys.entries import CredentialEntry
from keys.pool.score import FAILURE_MEMORY_S, Shared, base_terms, model_terms
from keys.pool.verdicts import Cause, State

#: A session stays where its prompt cache is warm until waiting there is worth this many more open attempts.
AFFINITY_WORTH = 3.0
#: Credentials this close to the best are equals: a new session picks among them by its id, alike in every worker.
EQUALS_WITHIN = 0.25
RUNNERS_UP = 5
#: Where a route takes every name through, clients make up models; more than these are not kept.
MODELS_MAX = 256
#: So many credentials that were passed over for one reason are named in a decision; the others are counted.
NAMED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The credential to try, and why this one."""

    credential: CredentialEntry
    is_probe: bool
    decision: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturated:
    """No credential can serve now."""

    #: When one can again; None when time alone won't help.
    until: float | None
    is_rate_limited: bool = False
    decision: Mapping[str, Any] = field(default_factory=dict)


class Board:
    """Ranks the credentials of one upstream for its models."""

    def __init__(self, credentials: Iterable[CredentialEntry], shared: Shared) -> None:
        self.credentials = tuple(credentials)
        self._shared = shared
        self._places = {entry.id: place for place, entry in enumerate(self.credentials)}
        self._draining = [place for place, entry in enumerate(self.credentials) if entry.draining]
        self._lots = [crc32(b"%d" % entry.id) for entry in self.credentials]
        self._base = [0.0] * len(self.credentials)
        self._extra: dict[str, list[float]] = {}
        self._reasons = [""] * len(self.credentials)
        self._model_reasons: dict[str, list[str]] = {}
        #: (when, credential, model): rests that end.
        self._wakes: list[tuple[float, int, str]] = []
        self._awaited: set[tuple[float, int, str]] = set()
        self._passed: dict[str, dict[str, dict[str, Any]]] = {}
        self._active: set[int] = set()

    def start(self, now: float) -> None:
        """Compute all scores."""
        for entry in self.credentials:
            self.update(entry.id, now=now)

    def update(self, credential_id: int, *, now: float) -> None:
        """Compute the score of a credential whose load or state changed."""
        place = self._places.get(credential_id)
        if place is None:
            return
        entry = self.credentials[place]
        reason = self._obstacle(entry, now, tokens=0)
        self._base[place] = inf if reason else sum(base_terms(entry, self._shared, now).values())
        if reason != self._reasons[place]:
            self._reasons[place] = reason
            self._passed.clear()
        if not self._shared.load(entry.id).is_idle:
            self._active.add(entry.id)

    def update_model(self, credential_id: int, model: str, *, now: float) -> None:
        """Compute the part of the score that a model adds."""
        place = self._places.get(credential_id)
        if place is None or model not in self._extra:
            return
        self._set_extra(place, model, now)

    def refresh(self, now: float) -> None:
        """Let the windows move on; called about every second, off the path of requests."""
        for credential_id in list(self._active):
            load = self._shared.load(credential_id)
            load.expire(now)
            self.update(credential_id, now=now)
            if load.is_idle:
                self._active.discard(credential_id)

    def choose(
        self,
        model: str,
        *,
        now: float,
        tokens: int = 0,
        exclude: Collection[int] = (),
        session: str = "",
        home: int | None = None,
    ) -> Choice | Saturated:
        """Pick the credential for an attempt.

        Args:
            tokens: About how many the attempt will use.
            exclude: Credentials that the request tried already.
            session: The session's id, "" for none.
            home: The credential that served the session last; None when none did.
        """
        self._wake(now)
        scores = list(map(add, self._base, self._extra.get(model) or self._new_extra(model, now)))
        stay = self._places.get(home, -1) if home is not None else -1
        for credential_id in exclude:
            if (place := self._places.get(credential_id)) is not None:
                scores[place] = inf
        for place in self._draining:
            if place != stay:
                scores[place] = inf
        while True:
            best = min(scores, default=inf)
            if best == inf:
                return self._saturated(model, now, tokens, exclude)
            place, why = self._pick(scores, best, session, stay)
            entry = self.credentials[place]
            reason = self._obstacle(entry, now, tokens) or self._rest(entry.id, model, now)
            if not reason:
                break
            scores[place] = inf
        decision = self._decision(model, scores, place, why, now)
        if exclude:
            decision["tried"] = sorted(exclude)
        return Choice(credential=entry, is_probe=self._is_probe(entry, model, now), decision=decision)

    def only_one(self, *, now: float, tokens: int = 0) -> Choice | None:
        """Return the pool's only usable credential, resting or not; None if there are others, or it is full."""
        usable = [entry for entry in self.credentials if entry.enabled and not entry.defect and not entry.draining]
        if len(usable) != 1 or self._full(usable[0], now, tokens):
            return None
        return Choice(credential=usable[0], is_probe=True, decision={"chosen": usable[0].id, "why": "the only one"})

    def ejected(self, model: str, now: float, *, but: int) -> int:
        """Count the credentials that are ejected as a whole or for `model`, leaving out one."""
        return sum(
            entry.enabled and entry.id != but and self._is_ejected(entry.id, model, now) for entry in self.credentials
        )

    @property
    def enabled(self) -> int:
        return sum(entry.enabled and not entry.defect for entry in self.credentials)

    def _is_ejected(self, credential_id: int, model: str, now: float) -> bool:
        healths = (self._shared.health(credential_id, name) for name in ("", model))
        return any(health.state is State.EJECTED and health.is_resting(now) for health in healths)

    def _pick(self, scores: list[float], best: float, session: str, stay: int) -> tuple[int, str]:
        """Return the place to use, and what decided."""
        if stay >= 0 and scores[stay] <= best + AFFINITY_WORTH:
            return stay, "stays"
        if not session:
            return self._first(scores, best), "lowest"
        equals = [place for place, score in enumerate(scores) if score <= best + EQUALS_WITHIN]
        if len(equals) == 1:
            return equals[0], "moved" if stay >= 0 else "lowest"
        salt = crc32(session.encode("utf-8", "replace"))
        # Rendezvous hashing (Knuth's multiplier mixes): the same session draws the same lot in every worker.
        chosen = max(equals, key=lambda place: ((self._lots[place] ^ salt) * 2_654_435_761) & 0xFFFF_FFFF)
        return chosen, "moved" if stay >= 0 else "by session"

    def _first(self, scores: list[float], best: float) -> int:
        """Return the first of the best; each worker begins elsewhere, so that they don't all take the same."""
        crew = self._shared.crew
        try:
            return scores.index(best, len(scores) * crew.index // crew.size)
        except ValueError:
            return scores.index(best)

    def _new_extra(self, model: str, now: float) -> list[float]:
        if len(self._extra) >= MODELS_MAX:
            self._extra.clear()
            self._model_reasons.clear()
            self._passed.clear()
        self._extra[model] = [0.0] * len(self.credentials)
        self._model_reasons[model] = [""] * len(self.credentials)
        for place in range(len(self.credentials)):
            self._set_extra(place, model, now)
        return self._extra[model]

    def _set_extra(self, place: int, model: str, now: float) -> None:
        entry = self.credentials[place]
        reason = self._rest(entry.id, model, now)
        self._extra[model][place] = inf if reason else sum(model_terms(entry, model, self._shared, now).values())
        if reason != self._model_reasons[model][place]:
            self._model_reasons[model][place] = reason
            self._passed.pop(model, None)

    def _wake(self, now: float) -> None:
        while self._wakes and self._wakes[0][0] <= now:
            wake = heappop(self._wakes)
            self._awaited.discard(wake)
            _, credential_id, model = wake
            if model:
                self.update_model(credential_id, model, now=now)
            else:
                self.update(credential_id, now=now)

    def _obstacle(self, entry: CredentialEntry, now: float, tokens: int) -> str:
        """Say why the credential can't serve anything now; "" when it can."""
        if not entry.enabled:
            return "disabled"
        if entry.defect:
            return entry.defect
        return self._rest(entry.id, "", now) or self._full(entry, now, tokens)

    def _rest(self, credential_id: int, model: str, now: float) -> str:
        health = self._shared.healths.get((credential_id, model))
        if health is None:
            return ""
        if health.state is State.READY:
            if health.failures and health.last_failure_at is not None:
                self._await((health.last_failure_at + FAILURE_MEMORY_S, credential_id, model), now)
            return ""
        if health.is_resting(now):
            self._await((health.until or now, credential_id, model), now)
            return health.state.value
        if health.needs_probe(now) and (credential_id, model) in self._shared.probes:
            return "on trial"
        return ""

    def _await(self, wake: tuple[float, int, str], now: float) -> None:
        """Have the score computed anew at that time."""
        if wake[0] > now and wake not in self._awaited:
            self._awaited.add(wake)
            heappush(self._wakes, wake)

    def _full(self, entry: CredentialEntry, now: float, tokens: int) -> str:
        if entry.rpm is None and entry.tpm is None and entry.concurrency is None:
            return ""
        load = self._shared.load(entry.id)
        load.expire(now)
        if not load.is_full_elsewhere(tokens, now=now) and load.has_room(
            entry, tokens, self._shared.crew, is_counted_elsewhere=self._shared.is_counted_elsewhere
        ):
            return ""
        self._await((load.frees_at(now), entry.id, ""), now)
        return "full"

    def _is_probe(self, entry: CredentialEntry, model: str, now: float) -> bool:
        return any(self._shared.health(entry.id, name).needs_probe(now) for name in ("", model))

    def _saturated(self, model: str, now: float, tokens: int, exclude: Collection[int]) -> Saturated:
        """Say when the first credential can serve again."""
        waits = []
        for entry in self.credentials:
            if not entry.enabled or entry.defect or entry.draining or entry.id in exclude:
                continue
            healths = [self._shared.health(entry.id, name) for name in ("", model)]
            is_full = bool(self._full(entry, now, tokens))
            # Where only claims or a trial are in the way, a second is the honest guess.
            until = [health.until or now for health in healths] + [now + 1]
            until.append(self._shared.load(entry.id).frees_at(now) if is_full else now)
            is_limited = is_full or any(health.cause is Cause.RATE_LIMIT for health in healths)
            waits.append((max(until), is_limited))
        until_first, is_rate_limited = min(waits, default=(None, False))
        return Saturated(until=until_first, is_rate_limited=is_rate_limited, decision=self._passed_over(model, now))

    def _decision(self, model: str, scores: list[float], place: int, why: str, now: float) -> dict[str, Any]:
        entry = self.credentials[place]
        closest = nsmallest(RUNNERS_UP, zip(scores, range(len(scores)), strict=True))
        terms = base_terms(entry, self._shared, now) | model_terms(entry, model, self._shared, now)
        return {
            "chosen": entry.id,
            "why": why,
            "terms": {name: round(value, 3) for name, value in terms.items() if value},
            "closest": [[self.credentials[at].id, round(score, 3)] for score, at in closest if score != inf],
            **self._passed_over(model, now),
        }

    def _passed_over(self, model: str, now: float) -> dict[str, Any]:
        """Return the credentials that can't serve, by reason; kept until one changes."""
        if (known := self._passed.get(model)) is None:
            reasons: dict[str, list[int]] = {}
            for entry, reason, model_reason in zip(
                self.credentials, self._reasons, self._model_reasons[model], strict=True
            ):
                if why := reason or model_reason or ("draining" if entry.draining else ""):
                    reasons.setdefault(why, []).append(entry.id)
            known = self._passed[model] = {
                why: {"count": len(ids), "ids": ids[:NAMED_MAX]} for why, ids in reasons.items()
            }
        return {"pool": len(self.credentials), "passed_over": known}
