"""Settings of the tests: those of Bridge, on a real Postgres of their own that lives as long as the run."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_data_dir = Path(tempfile.mkdtemp(prefix="bridge-tests-"))
os.environ["BRIDGE_DATA_DIR"] = str(_data_dir)
os.environ.pop("BRIDGE_DATABASE_URL", None)

import psycopg  # noqa: E402

from bridgeproject.database import EmbeddedPostgres, conninfo, embedded_parts  # noqa: E402

_postgres = EmbeddedPostgres(data_dir=_data_dir)
_postgres.start()
# A call gives up after a second without its record: a slow disk is not what is tested.
with psycopg.connect(conninfo(embedded_parts(_data_dir)), autocommit=True) as _connection:
    _connection.execute("ALTER SYSTEM SET fsync = off")
    _connection.execute("SELECT pg_reload_conf()")


def _stop() -> None:
    _postgres.stop()
    shutil.rmtree(_data_dir, ignore_errors=True)


atexit.register(_stop)

from bridgeproject.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast, and never outside tests
