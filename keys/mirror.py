"""A worker's picture of all credentials: their loads, their states, and the boards that rank them.

What changes here is handed to `keys.store`; what other workers changed comes in by `hear`.
"""

from collections.abc import Callable

from keys.directory import Directory
from keys.entries import CredentialEntry
from keys.pool.board import Board
from keys.pool.health import READY, Health
from keys.pool.score import Shared as Known
from keys.store import Figures, Shared, StateKey, StateStore, Subject

#: Local news younger than this is not overruled by what was read from Postgres.
NEWS_S = 2.0
#: Postgres keeps microseconds.
ROUNDING_S = 1e-5

Place = tuple[int, str]


class Mirror:
    """Loads, states and boards, kept in step with each other."""

    def __init__(self, directory: Directory, *, dsn: str, worker_id: str, now: Callable[[], float]) -> None:
        self._directory = directory
        self._now = now
        self.known = Known()
        self.upstreams: dict[Place, Health] = {}
        #: Trial attempts on upstreams, under way.
        self.upstream_probes: set[Place] = set()
        self._boards: dict[int, tuple[tuple[CredentialEntry, ...], Board]] = {}
        self.store = StateStore(dsn, worker_id, hear=self.hear, tell=self.loads, now=now) if dsn else None

    def board(self, upstream_id: int, now: float) -> Board:
        """Return the upstream's board, made anew when its credentials were read anew."""
        credentials = self._directory.credentials(upstream_id)
        known = self._boards.get(upstream_id)
        if known is not None and known[0] is credentials:
            return known[1]
        board = Board(credentials, self.known)
        board.start(now)
        self._boards[upstream_id] = (credentials, board)
        return board

    def refresh(self) -> None:
        """Let the windows of all boards move on."""
        for _, board in self._boards.values():
            board.refresh(self._now())

    def health(self, key: StateKey) -> Health | None:
        """Return a state; None when nothing was ever learned."""
        subject, owner_id, model = key
        return self._healths(subject).get((owner_id, model))

    def put(self, key: StateKey, health: Health) -> None:
        """Replace a state, and have it written when it changed for others too."""
        subject, owner_id, model = key
        before = self.health(key) or READY
        self._healths(subject)[owner_id, model] = health
        if self.store is not None and health.changed_at != before.changed_at:
            self.store.put(key, health)
        if subject is Subject.CREDENTIAL:
            self.update(owner_id, model)

    def update(self, credential_id: int, model: str) -> None:
        """Rank a credential anew after its load or state changed."""
        now = self._now()
        for _, board in self._boards.values():
            board.update(credential_id, now=now)
            if model:
                board.update_model(credential_id, model, now=now)

    def loads(self) -> dict[int, Figures]:
        """Return this worker's own loads, for the others."""
        now = self._now()
        figures = {}
        for credential_id, load in self.known.loads.items():
            load.expire(now)
            if not load.is_idle:
                figures[credential_id] = (load.in_flight, load.sends, load.tokens)
        return figures

    def hear(self, shared: Shared) -> None:
        """Take what Postgres holds, except where this worker has fresher news."""
        for subject in Subject:
            self._hear_states(subject, shared)
        self.known.crew = shared.crew
        for credential_id in {*shared.others, *self.known.loads}:
            in_flight, sends, tokens = shared.others.get(credential_id, (0, 0, 0))
            load = self.known.load(credential_id)
            load.hear(in_flight=in_flight, sends=sends, tokens=tokens)
            self.update(credential_id, "")

    def _hear_states(self, subject: Subject, shared: Shared) -> None:
        healths = self._healths(subject)
        told = {(key[1], key[2]): health for key, health in shared.states.items() if key[0] is subject}
        for place in {*told, *healths}:
            mine, theirs = healths.get(place), told.get(place)
            if theirs == mine or not self._is_news(subject, place, theirs, shared.read_at):
                continue
            if theirs is None:
                del healths[place]
            else:
                healths[place] = theirs
            if subject is Subject.CREDENTIAL:
                self.update(*place)

    def _is_news(self, subject: Subject, place: Place, theirs: Health | None, read_at: float) -> bool:
        if self.store is not None and self.store.is_pending((subject, *place)):
            return False
        mine = self._healths(subject).get(place)
        if mine is None:
            return True
        if theirs is None:
            # Somebody deleted the row, unless ours was written after the reading.
            return mine.changed_at < read_at - NEWS_S
        return theirs.changed_at >= mine.changed_at - ROUNDING_S

    def _healths(self, subject: Subject) -> dict[Place, Health]:
        return self.known.healths if subject is Subject.CREDENTIAL else self.upstreams
