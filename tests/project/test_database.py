from django.db import connection


def test_tests_run_on_postgres(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")

        assert int(cursor.fetchone()[0]) >= 170000
