"""Settings of the tests: those of Bridge, on a real Postgres of their own that lives as long as the run."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_data_dir = Path(tempfile.mkdtemp(prefix="bridge-tests-"))
os.environ["BRIDGE_DATA_DIR"] = str(_data_dir)
os.environ.pop("BRIDGE_DATABASE_URL", None)

from bridgeproject.database import EmbeddedPostgres  # noqa: E402

_postgres = EmbeddedPostgres(data_dir=_data_dir)
_postgres.start()


def _stop() -> None:
    _postgres.stop()
    shutil.rmtree(_data_dir, ignore_errors=True)


atexit.register(_stop)

from bridgeproject.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast, and never outside tests
