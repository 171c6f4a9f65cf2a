"""Rule 7 of the sum: after a storm, a gateway comes to rest.

Its event loops' tasks can't be counted from outside; each of them that waits for a client, an upstream or Postgres
holds a socket, and those are.
"""

import time
from dataclasses import dataclass

import httpx
import psutil  # type: ignore[import-untyped]  # it brings no types

from tests.gateway import RunningGateway

FILES_SLACK = 5
MEMORY_SHARE = 0.15
MEMORY_SLACK = 8 * 2**20
#: Connections that each worker may keep: the ledger's two and what listens, reads and writes beside them.
CONNECTIONS_PER_WORKER = 10
#: The rest of a storm is over in ten seconds; idle connections to an upstream are kept for thirty more.
WITHIN_S = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What a gateway holds."""

    #: By worker.
    files: dict[int, int]
    memory: dict[int, int]
    connections: int
    streams: float

    @classmethod
    def of(cls, gateway: RunningGateway) -> "Rest":
        workers = [psutil.Process(pid) for pid in gateway.worker_pids()]
        (row,) = gateway.sql("SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()")
        return cls(
            files={one.pid: one.num_fds() for one in workers},
            memory={one.pid: one.memory_info().rss for one in workers},
            connections=row["n"] - 1,
            streams=_streams(gateway),
        )

    def exceeds(self, before: "Rest") -> list[str]:
        """Name what is more than it was, for the workers that were there then."""
        found = [f"{self.streams} streams are open"] if self.streams else []
        for pid, files in self.files.items():
            if files > before.files.get(pid, files) + FILES_SLACK:
                found.append(f"worker {pid} has {files} files open, had {before.files[pid]}")
        for pid, memory in self.memory.items():
            if memory > before.memory.get(pid, memory) * (1 + MEMORY_SHARE) + MEMORY_SLACK:
                found.append(f"worker {pid} holds {memory >> 20} MB, held {before.memory[pid] >> 20}")
        if self.connections > CONNECTIONS_PER_WORKER * len(self.files):
            found.append(f"{self.connections} connections to Postgres")
        return found


def assert_comes_to_rest(gateway: RunningGateway, before: Rest) -> None:
    """Wait up to `WITHIN_S` until nothing is more than it was."""
    until = time.monotonic() + WITHIN_S
    while (more := Rest.of(gateway).exceeds(before)) and time.monotonic() < until:
        time.sleep(0.5)
    assert not more, more


def _streams(gateway: RunningGateway) -> float:
    text = httpx.get(f"{gateway.base_url}/metrics", trust_env=False, timeout=5).text
    values = [line.split()[-1] for line in text.splitlines() if line.startswith("bridge_streams_open")]
    return sum(map(float, values))
