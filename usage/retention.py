"""How long things are kept: records by whole months, sums by rows in pieces, so that no writer waits for long."""

from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from usage.rollups import Rollup

#: Rows that one statement deletes.
PIECE = 5_000


def drop_sums(connection: BaseDatabaseWrapper, rollup: Rollup, before: datetime, *, dry_run: bool = False) -> int:
    """Delete the sums of spans that began before a moment; return how many they are."""
    table, span = rollup.table, rollup.span
    # The names are those of our own tables, never input.
    old = f"FROM {table} WHERE {span} < %s"
    with connection.cursor() as cursor:
        if dry_run:
            cursor.execute(f"SELECT count(*) {old}", [before])
            return int((cursor.fetchone() or (0,))[0])
        gone = 0
        piece = f"DELETE FROM {table} WHERE ({span}, key) IN (SELECT {span}, key {old} LIMIT {PIECE})"  # noqa: S608
        while cursor.execute(piece, [before]) is not None and cursor.rowcount:
            gone += cursor.rowcount
        return gone
