"""Which writers live: each counts a beat up in the database, and the others watch it stand still.

A writer counts as dead when its beat was the same at `LOOKS` looks in a row. No clock is compared with another:
one that is set, or a process that was stopped and goes on, kills nobody.
"""

import logging
from dataclasses import dataclass, field

from usage import statements
from usage.connection import LedgerConnection

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 4.0
#: Six looks at 4 s: the records of a dead worker are closed within half a minute.
LOOKS = 6
#: So many looks in a row that found nobody else: workers that begin together don't begin at once.
LONE_LOOKS = 3


@dataclass(slots=True)
class Watch:
    """What one worker saw of the others' beats."""

    #: Per worker: its beat, and how often in a row it was seen there.
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: How often in a row no other worker was seen alive.
    _lone_looks: int = 0

    @property
    def is_alone(self) -> bool:
        """Whether no other worker lives, as far as is known: one that has just begun is seen at the next look."""
        return self._lone_looks >= LONE_LOOKS

    def look(self, beats: dict[str, int], *, own: str) -> list[tuple[str, int]]:
        """Take in the beats as they stand now; return the workers that are dead, with the beat they died at."""
        seen = {}
        for worker, beat in beats.items():
            known, times = self._seen.get(worker, (beat, 0))
            seen[worker] = (beat, times + 1 if known == beat else 1)
        self._seen = seen
        dead = [(worker, beat) for worker, (beat, times) in seen.items() if times >= LOOKS and worker != own]
        self._lone_looks = self._lone_looks + 1 if len(seen) - len(dead) <= 1 else 0
        return dead


async def beat_and_look(connection: LedgerConnection, worker: str, watch: Watch) -> list[tuple[str, int]]:
    """Show that this worker lives; return those that don't."""
    _, cursor = await connection.run([(statements.BEAT, [worker]), (statements.LEASES, [])])
    return watch.look(dict(await cursor.fetchall()), own=worker)


async def close_as_lost(connection: LedgerConnection, worker: str, beat: int) -> int:
    """Close the open records of a dead worker and release what it reserved; return how many they were."""
    (cursor,) = await connection.run([(statements.LOSE, [worker, beat])])
    lost: int = (await cursor.fetchone() or (0,))[0]
    logger.warning("worker %s is dead; records closed as lost: %s", worker, lost)
    return lost


async def leave(connection: LedgerConnection, worker: str) -> None:
    """Take the own lease away: this worker ends in order and left nothing open."""
    await connection.run([(statements.LEAVE, [worker])])
