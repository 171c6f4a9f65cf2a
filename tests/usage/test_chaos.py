"""Workers that die, stop, and lose their database: the sum holds."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.the_sum import check_the_sum
from tests.usage.gate import Gate, gate
from tests.usage.test_budgets import a_budget
from tests.usage.test_records import settled
from tests.usage.waiting import eventually
from tests.usage.worker import STREAMS
from usage.connection import LedgerConnection
from usage.leases import LOOKS, Watch, beat_and_look, close_as_lost
from usage.records import RecordWriter

__all__ = ["gate"]

Query = Callable[..., list[dict[str, Any]]]
Process = asyncio.subprocess.Process


@pytest.fixture
async def start(gate: Gate, dsn: str, tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[Process]]]:
    running: list[Process] = []
    parts = conninfo_to_dict(dsn)
    environment = {
        "DJANGO_SETTINGS_MODULE": "bridgeproject.settings",
        "BRIDGE_DATABASE_URL": f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}",
    }

    async def start_one() -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.usage.worker", gate.dsn, str(tmp_path / "spool"), str(tmp_path / "truth"),
            env=os.environ | environment, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        running.append(process)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        return process

    yield start_one
    for process in running:
        if process.returncode is None:
            process.kill()
            await process.wait()


def truth(tmp_path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (tmp_path / "truth").read_bytes().splitlines()]


async def attempts_go_on(tmp_path: Path, *, count: int = 4 * STREAMS) -> None:
    """Wait until so many attempts more have begun."""
    file = tmp_path / "truth"

    def begun() -> int:
        return file.read_bytes().count(b"\n") if file.exists() else 0

    enough = begun() + count
    await eventually(lambda: begun() >= enough)


def spooled_ids(tmp_path: Path) -> set[str]:
    lines = [line for spool in (tmp_path / "spool").glob("*.spool") for line in spool.read_bytes().splitlines(True)]
    rows = [orjson.loads(line) for line in lines if line.endswith(b"\n")]
    return {row["id"] for row in rows if "id" in row}


async def connections_are_over(query: Query) -> None:
    """Wait until Postgres is through with what the ledgers here sent: it goes on after its client is gone."""
    here = "datname = current_database() AND application_name = 'bridge-ledger'"
    await eventually(lambda: not query(f"SELECT pid FROM pg_stat_activity WHERE {here}"))  # noqa: S608


async def all_ends_are_spooled(query: Query, tmp_path: Path) -> None:
    """Wait until what is open in Postgres has its end on the disk."""

    def open_ids() -> set[str]:
        return {str(row["id"]) for row in query("SELECT id FROM usage_usagerecord WHERE state = 'open'")}

    await connections_are_over(query)
    await eventually(lambda: (ids := spooled_ids(tmp_path)) and open_ids() <= ids)


def records(query: Query) -> list[dict[str, Any]]:
    return query("SELECT * FROM usage_usagerecord")


async def clean_up(dsn: str, query: Query, tmp_path: Path) -> None:
    """Do what the next worker does: replay the spools of the dead, then close what they left open."""
    await connections_are_over(query)
    writer = RecordWriter(dsn, tmp_path / "spool", "survivor")
    await writer.start()
    connection, watch = LedgerConnection(dsn), Watch()
    for _ in range(LOOKS):
        dead = await beat_and_look(connection, "survivor", watch)
    await settled(writer)
    for worker, beat in dead:
        await close_as_lost(connection, worker, beat)
    await connection.close()
    await writer.close()


async def test_a_killed_worker_loses_no_record(
    start: Callable[[], Awaitable[Process]], dsn: str, query: Query, tmp_path: Path
) -> None:
    a_budget(query, limit=10**9)
    for _ in range(2):
        process = await start()
        await attempts_go_on(tmp_path)
        process.kill()
        await process.wait()

    await clean_up(dsn, query, tmp_path)

    attempts = truth(tmp_path)
    assert len(attempts) > 2 * STREAMS
    # Those alive, and those whose end was still in the worker's memory: an end waits 10 ms at most for its batch.
    check_the_sum(query, records(query), attempts, lost=2 * STREAMS * 2)


async def test_a_stopped_worker_settles_everything(
    start: Callable[[], Awaitable[Process]], query: Query, tmp_path: Path
) -> None:
    a_budget(query, limit=10**9)
    processes = await asyncio.gather(start(), start())
    await attempts_go_on(tmp_path, count=8 * STREAMS)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    assert [await process.wait() for process in processes] == [0, 0]

    check_the_sum(query, records(query), truth(tmp_path), lost=0)
    assert query("SELECT * FROM usage_workerlease") == []
    assert not list((tmp_path / "spool").glob("*"))


async def test_an_outage_under_load_loses_no_record(
    start: Callable[[], Awaitable[Process]], gate: Gate, query: Query, tmp_path: Path
) -> None:
    a_budget(query, limit=10**9)
    process = await start()
    for _ in range(2):
        await attempts_go_on(tmp_path)
        await gate.shut()
        await eventually(lambda: spooled_ids(tmp_path))
        await asyncio.sleep(0.5)
        await gate.open()
        await eventually(lambda: not spooled_ids(tmp_path))
    await attempts_go_on(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0

    check_the_sum(query, records(query), truth(tmp_path), lost=0)


async def test_a_worker_killed_during_an_outage_leaves_its_spool(
    start: Callable[[], Awaitable[Process]], gate: Gate, dsn: str, query: Query, tmp_path: Path
) -> None:
    a_budget(query, limit=10**9)
    process = await start()
    await attempts_go_on(tmp_path)
    await gate.shut()
    await all_ends_are_spooled(query, tmp_path)
    process.kill()
    await process.wait()
    assert list((tmp_path / "spool").glob("*.spool"))

    await clean_up(dsn, query, tmp_path)

    check_the_sum(query, records(query), truth(tmp_path), lost=STREAMS // 5)
