import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

from bridgeproject.database import conninfo, parse_database_url


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
