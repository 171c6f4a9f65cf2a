"""A ledger on the test's own database, and rows to put into it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from psycopg.rows import dict_row

from bridgeproject.database import conninfo
from tests.usage.waiting import DEADLINES, PATIENCE_S, wait_for_a_whole_hour
from usage.connection import LedgerConnection
from usage.records import OpenRecord, RecordWriter, new_record_id


@pytest.fixture(autouse=True)
def _nothing_cached() -> None:
    cache.clear()


@pytest.fixture(autouse=True)
def _whole_hour() -> None:
    wait_for_a_whole_hour()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only tests of a deadline have one: a slow machine is no fault of the ledger's."""
    for deadline in DEADLINES:
        monkeypatch.setattr(deadline, PATIENCE_S)


@pytest.fixture
def dsn(transactional_db: None) -> str:
    parts = settings.DATABASES["default"] | {"NAME": connection.settings_dict["NAME"]}
    return conninfo(parts)


@pytest.fixture(name="connection")
async def _connection(dsn: str) -> AsyncIterator[LedgerConnection]:
    """One worker's; another's is `rival`."""
    one = LedgerConnection(dsn)
    yield one
    await one.close()


@pytest.fixture
async def rival(dsn: str) -> AsyncIterator[LedgerConnection]:
    one = LedgerConnection(dsn)
    yield one
    await one.close()


@pytest.fixture
async def writer(dsn: str, tmp_path: Path) -> AsyncIterator[RecordWriter]:
    writer = RecordWriter(dsn, tmp_path / "spool", "worker-1")
    await writer.start()
    yield writer
    await writer.close()


@pytest.fixture
def query(dsn: str) -> Callable[..., list[dict[str, Any]]]:
    """Ask the database beside the writer's connection."""

    def ask(statement: str, *arguments: object) -> list[dict[str, Any]]:
        with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as other:
            cursor = other.execute(statement, arguments)
            return cursor.fetchall() if cursor.description else []

    return ask


def a_record(**changes: Any) -> OpenRecord:
    identity = changes.pop("id", None) or new_record_id()
    facts: dict[str, Any] = {
        "request_id": f"req_{identity.hex}",
        "user_id": 1,
        "user_name": "alice",
        "token_id": 11,
        "token_name": "laptop",
        "alias": "claude-sonnet",
        "upstream_id": 7,
        "upstream_name": "provider",
        "upstream_model": "glm-5",
        "credential_id": 3,
        "credential_label": "team key",
        "client_name": "claude-cli",
        "client_version": "2.1.0",
        "stream": True,
    }
    return OpenRecord(id=identity, **facts | changes)


async def aside(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run what uses Django's connection in a thread, and leave no connection behind."""

    def run() -> Any:
        try:
            return function(*arguments, **options)
        finally:
            connection.close()

    return await sync_to_async(run)()
