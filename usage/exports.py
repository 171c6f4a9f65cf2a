"""Rows as CSV or as JSON lines, page by page, so that a million of them need no memory.

What a spreadsheet would take for a formula is made text, by an apostrophe:
https://owasp.org/www-community/attacks/CSV_Injection.
"""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from asgiref.sync import sync_to_async

from usage.reports import PAGE_MAX, RECORD_COLUMNS, Question, records

FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")


def safe_cell(value: object) -> object:
    """Return what may stand in a cell: no formula, no line of a list."""
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_MARKS) else value


def as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, with_header: bool = True) -> str:
    """Write rows under a header; missing values are empty cells."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    if with_header:
        writer.writerow(columns)
    writer.writerows([safe_cell(row.get(column)) for column in columns] for row in rows)
    return buffer.getvalue()


async def records_csv(question: Question) -> AsyncIterator[bytes]:
    """Stream all records as CSV, newest first."""
    yield as_csv(RECORD_COLUMNS, []).encode()
    async for page in _pages(question):
        yield as_csv(RECORD_COLUMNS, page, with_header=False).encode()


async def records_json(question: Question) -> AsyncIterator[bytes]:
    """Stream all records as JSON lines, newest first."""
    async for page in _pages(question):
        yield b"".join(orjson.dumps(row) + b"\n" for row in page)


async def _pages(question: Question) -> AsyncIterator[list[dict[str, Any]]]:
    after: UUID | None = None
    while True:
        page, after = await sync_to_async(records)(question, after=after, limit=PAGE_MAX)
        if page:
            yield page
        if after is None:
            return
