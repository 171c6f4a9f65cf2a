"""The gateway as real processes on a database of its own: fixture `gateway`, a factory.

running = gateway(workers=2, upstream=upstream, BRIDGE_DRAIN_S="5")
httpx.post(f"{running.base_url}/v1/messages", headers={"x-api-key": running.token}, json=...)
assert running.records()[0]["state"] == "ok"
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx
import psutil  # type: ignore[import-untyped]  # it brings no types
import psycopg
import pytest
from django.conf import settings
from psycopg.rows import dict_row
from psycopg.sql import SQL, Composed, Identifier

from bridgeproject.database import DATABASE_NAME, conninfo, embedded_parts
from tests import processes
from tests.processes import Running
from tests.upstream import ScriptedUpstream

TEMPLATE = "gateway_template"
READY_WITHIN_S = 300
#: What a command, or what happens beside a call, may take on a busy machine.
PATIENCE_S = 180
#: Long, since a busy machine makes pauses of its own. A test of a silent upstream has its own: `IMPATIENT`.
TIMEOUTS = {"connect_timeout_s": 30, "first_byte_timeout_s": 60, "idle_timeout_s": 60, "total_timeout_s": 300}
IMPATIENT = {"first_byte_timeout_s": 2, "idle_timeout_s": 2}
#: How the connection by which a worker follows the tables is called, and what it says last when it has read them.
FOLLOWERS = {"bridge_keys": "COMMIT", "bridge_states": "SELECT id, loads FROM keys_worker%"}
#: Several commands in one process: each start of Django takes a second.
MANY_COMMANDS = (
    "import json, os; from django.core.management import call_command; "
    "[call_command(*words) for words in json.loads(os.environ['COMMANDS'])]"
)

_numbers = itertools.count(1)


class MakeGateway(Protocol):
    """What the fixture `gateway` gives."""

    def __call__(
        self,
        *,
        workers: int = 1,
        upstream: ScriptedUpstream | None = None,
        keys: Sequence[str] = ("sk-one",),
        commands: Sequence[Sequence[str]] = (),
        prepare: "Callable[[RunningGateway], None] | None" = None,
        server: Path | None = None,
        **environment: str,
    ) -> "RunningGateway":
        """Make one, and start it.

        Args:
            prepare: Called before the start, when everything else is in the tables: workers know from the first call on
                what it adds there.
        """


@dataclass(kw_only=True)
class RunningGateway:
    """A gateway that answers, or answered."""

    database: str
    environment: dict[str, str]
    data_dir: Path
    workers: int
    #: The data directory of the Postgres that it is on.
    server: Path
    token: str = ""
    base_url: str = ""
    running: Running | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the server, after a stop or a kill too, and wait until it is ready."""
        arguments = ["manage.py", "serve", "--port", "0", "--workers", str(self.workers)]
        self.running = processes.start(arguments, log=self.data_dir / "serve.log", environment=self.environment)
        self.base_url = self.running.first_line.removeprefix("serving on ")
        self.wait_ready()

    def wait_ready(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while not self.is_ready():
            assert time.monotonic() < until, f"not ready: {self.log()[-3000:]}"
            time.sleep(0.05)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.base_url}/readyz", trust_env=False, timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> int:
        """Stop it as an operator would, and return its exit status."""
        assert self.running is not None
        return self.running.stop()

    def worker_pids(self) -> list[int]:
        """Give the processes that answer: the children, or the one process itself."""
        assert self.running is not None
        if self.workers == 1:
            return [self.running.pid]
        return [child.pid for child in psutil.Process(self.running.pid).children() if is_worker(child)]

    def kill9(self, pid: int) -> None:
        """Kill one of our workers without any chance to tidy up."""
        assert pid in self.worker_pids()
        os.kill(pid, signal.SIGKILL)

    def command(self, *words: str) -> str:
        """Run a management command and return what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=processes.ROOT,
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{words[0]}: {done.stderr}"
        return done.stdout.strip()

    def commands(self, *commands: Sequence[str]) -> str:
        """Run several management commands in one process."""
        words = json.dumps([list(command) for command in commands])
        self.environment["COMMANDS"] = words
        try:
            return self.command("shell", "--verbosity", "0", "-c", MANY_COMMANDS)
        finally:
            del self.environment["COMMANDS"]

    def add_upstream(self, name: str, base_url: str, *keys: str, **options: str) -> None:
        self.command(*upstream_words(name, base_url, *keys, **options))
        self.hurry(name)

    def add_route(self, alias: str, upstream: str, model: str = "") -> None:
        self.command(*route_words(alias, upstream, model))
        self.wait_until_known()

    def issue_token(self, user: str, *options: str) -> str:
        token = self.command("issue_token", user, *options)
        self.wait_until_known()
        return token

    def hurry(self, name: str | None = None, **timeouts: float) -> None:
        """Give an upstream, or all of them, short timeouts; the command has no options for them."""
        columns = TIMEOUTS | timeouts
        changes = SQL(", ").join(SQL("{} = {}").format(Identifier(k), v) for k, v in columns.items())
        self.execute(
            SQL("UPDATE keys_upstream SET {} WHERE name = %s OR %s::text IS NULL").format(changes), [name, name]
        )
        self.wait_until_known()

    def wait_until_known(self, channel: str = "bridge_keys") -> None:
        """Wait until every worker goes by what is in the tables now: those of the directory, or the pool's states.

        A reading may have begun before, and what it found is in use a little after its end: so three of them must end.
        """
        if self.running is None or self.running.process.poll() is not None:
            return
        until = time.monotonic() + PATIENCE_S
        for _ in range(3):
            [now] = self.sql("SELECT clock_timestamp() AS at")
            while len(self._readings(channel, now["at"])) < self.workers:
                assert time.monotonic() < until, f"not known: {self.log()[-2000:]}"
                self.execute(SQL("NOTIFY {}").format(Identifier(channel)))
                time.sleep(0.05)

    def _readings(self, channel: str, since: datetime) -> list[dict[str, Any]]:
        return self.sql(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
            " AND state = 'idle' AND query LIKE %s AND query_start > %s",
            f"bridge {channel}",
            FOLLOWERS[channel],
            since,
        )

    @contextmanager
    def standing_still(self, *pids: int) -> Iterator[None]:
        """Stop these workers until the end of the block, and their supervisor too, which would replace them."""
        assert self.running is not None
        supervisor = {self.running.pid} - set(pids)
        try:
            for pid in (*supervisor, *pids):
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            try:
                self.wait_until_known()
            finally:
                for pid in supervisor:
                    os.kill(pid, signal.SIGCONT)

    def sql(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with self.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query, values).fetchall()

    def execute(self, query: str | Composed, values: Sequence[Any] = ()) -> None:
        with self.connect() as connection:
            connection.execute(query, values)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(database_conninfo(self.database, self.server), autocommit=True)

    def records(self) -> list[dict[str, Any]]:
        """Give all usage records, oldest first."""
        return self.sql("SELECT * FROM usage_usagerecord ORDER BY id")

    def settled(self, count: int | None = None, *, within_s: float = 60) -> list[dict[str, Any]]:
        """Wait until no record is open (and there are `count` of them), and give them all."""
        until = time.monotonic() + within_s
        while True:
            records = self.records()
            if all(r["state"] != "open" for r in records) and (count is None or len(records) >= count):
                return records
            states = [(r["state"], r["upstream_model"]) for r in records]
            assert time.monotonic() < until, f"wanted {count} settled records, have {states}: {self.log()[-2000:]}"
            time.sleep(0.05)

    def log(self) -> str:
        return (self.data_dir / "serve.log").read_text(encoding="utf-8", errors="replace")


def is_worker(child: psutil.Process) -> bool:
    """Say whether it is one of a server's workers; one that ends meanwhile, or has ended, is none."""
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.NoSuchProcess:
        return False


def upstream_words(name: str, base_url: str, *keys: str, **options: str) -> list[str]:
    words = ["add_upstream", name, base_url]
    words += [word for option, value in options.items() for word in (f"--{option}", value)]
    return words + [word for key in keys for word in ("--key", key)]


def route_words(alias: str, upstream: str, model: str = "") -> list[str]:
    return ["add_route", alias, upstream, *([model] if model else [])]


def database_conninfo(name: str, server: Path | None = None) -> str:
    return conninfo(embedded_parts(server or settings.DATA_DIR) | {"NAME": name})


def database_url(name: str, server: Path) -> str:
    return f"postgresql://postgres@/{name}?host={quote(embedded_parts(server)['HOST'], safe='')}"


def _create_database(name: str, template: str = "template1") -> None:
    with psycopg.connect(database_conninfo("postgres"), autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
        create = SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(create.format(Identifier(name), Identifier(template)))


@pytest.fixture(scope="session")
def migrated_template() -> str:
    """The name of a database with all tables and nothing in it."""
    _create_database(TEMPLATE)
    made = _gateway_on(TEMPLATE, Path(settings.DATA_DIR), workers=1)
    made.command("migrate", "--verbosity", "0")
    return TEMPLATE


def _gateway_on(
    database: str, data_dir: Path, *, workers: int, server: Path | None = None, **more: str
) -> RunningGateway:
    server = server or Path(settings.DATA_DIR)
    environment = {
        "DJANGO_SETTINGS_MODULE": "bridgeproject.settings",
        "BRIDGE_DATA_DIR": str(data_dir),
        "BRIDGE_DATABASE_URL": database_url(database, server),
        "BRIDGE_ALLOW_PRIVATE_UPSTREAMS": "127.0.0.1",
        "BRIDGE_DRAIN_S": "5",
        **more,
    }
    return RunningGateway(database=database, environment=environment, data_dir=data_dir, workers=workers, server=server)


@contextmanager
def _gateways(migrated_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeGateway]:
    """Make gateways that live until the end of the block."""
    made: list[RunningGateway] = []

    def make(
        *,
        workers: int = 1,
        upstream: ScriptedUpstream | None = None,
        keys: Sequence[str] = ("sk-one",),
        commands: Sequence[Sequence[str]] = (),
        prepare: Callable[[RunningGateway], None] | None = None,
        server: Path | None = None,
        **environment: str,
    ) -> RunningGateway:
        database = f"gateway_{next(_numbers)}" if server is None else DATABASE_NAME
        to_database: list[list[str]] = []
        if server is None:
            _create_database(database, migrated_template)
        else:
            to_database = [["migrate", "--verbosity", "0"]]
        folder = tmp_path_factory.mktemp(database)
        one = _gateway_on(database, folder, workers=workers, server=server, **environment)
        to_upstream = (
            [upstream_words("scripted", upstream.base_url, *keys), route_words("*", "scripted")] if upstream else []
        )
        printed = one.commands(*to_database, *to_upstream, *commands, ["issue_token", "alice"])
        one.token = printed.splitlines()[-1]
        one.hurry()
        if prepare is not None:
            prepare(one)
        made.append(one)
        one.start()
        return one

    yield make
    for one in made:
        if one.running is not None:
            one.stop()


@pytest.fixture(scope="session")
def make_lasting_gateway(migrated_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeGateway]:
    """Make gateways that live until the end of the run. Only few can: each worker holds connections to Postgres."""
    with _gateways(migrated_template, tmp_path_factory) as make:
        yield make


@pytest.fixture(scope="module")
def make_gateway(migrated_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeGateway]:
    """Make gateways that live until the end of the module."""
    with _gateways(migrated_template, tmp_path_factory) as make:
        yield make


@pytest.fixture
def gateway(make_gateway: MakeGateway) -> Iterator[MakeGateway]:
    """Make gateways that live until the end of the test."""
    made: list[RunningGateway] = []

    def make(**options: Any) -> RunningGateway:
        made.append(make_gateway(**options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture(scope="session")
def shared(make_lasting_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """One gateway for all tests that leave it as it was; every model name goes to the scripted upstream.

    Two workers, and so many credentials that broken calls don't put all of them to rest.
    """
    return make_lasting_gateway(workers=2, upstream=upstream_process, keys=[f"sk-{number}" for number in range(8)])
