"""The ledger held against what an upstream says it served.

* ExportError   a line of the provider's export can't be read

Two kinds of files. JSON lines, an attempt each, with the `request_id` that Bridge sent along as `x-request-id`
(the record's id): compared attempt by attempt. CSV with a header, sums per day and model, as providers export
them: `day`, `model`, `input_tokens`, `output_tokens`, and `requests` if they count them; compared sum by sum.
Input tokens include the cached ones in both.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from usage.periods import day_start, parse_day

#: Sums may be apart by this share; attempts by nothing.
TOLERANCE = 0.001
IDS_PER_QUERY = 5_000

_RECORDS = """
SELECT id::text, state, source, input_tokens + cache_read_tokens + cache_write_tokens, output_tokens
FROM usage_usagerecord WHERE id = ANY(%s::uuid[])"""
# Without a place in the file, but sent: whoever settled otherwise than refused or lost got an answer, or a part of one.
_OTHERS = """
SELECT id::text, state FROM usage_usagerecord
WHERE id >= %s AND id <= %s AND upstream_name = %s AND state IN ('ok', 'client_gone', 'truncated')"""
_SUMS = """
SELECT day, upstream_model, sum(attempts)::bigint, sum(input_tokens + cache_read_tokens + cache_write_tokens)::bigint,
    sum(output_tokens)::bigint
FROM usage_usageday WHERE upstream_name = %s AND day >= %s AND day < %s GROUP BY 1, 2"""


class ExportError(ValueError):
    """A line of the export can't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where ledger and export disagree: what it is about, and why."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    compared: int
    differences: tuple[Difference, ...]


def reconcile(text: str, *, upstream: str) -> Reconciliation:
    """Hold the records of an upstream against its export.

    Raises:
        ExportError: The export can't be read.
    """
    if text.lstrip().startswith("{"):
        return _by_attempt(_attempts(text), upstream)
    return _by_sum(_sums(text), upstream)


def _by_attempt(attempts: Mapping[str, Mapping[str, Any]], upstream: str) -> Reconciliation:
    known = dict(_known(list(attempts)))
    differences = [
        Difference(subject=identity, reason=reason)
        for identity, attempt in attempts.items()
        if (reason := _reason(attempt, known.get(identity)))
    ]
    for identity, state in _others(list(attempts), upstream):
        if identity not in attempts:
            differences.append(Difference(subject=identity, reason=f"the ledger has it ({state}), the export doesn't"))
    return Reconciliation(compared=len(attempts), differences=tuple(differences))


def _reason(attempt: Mapping[str, Any], record: tuple[str, str, int, int] | None) -> str:
    if record is None:
        return "the export has it, the ledger doesn't"
    state, source, input_tokens, output_tokens = record
    if state == "open":
        return "the ledger still has it open"
    if source != "upstream":
        return ""  # the ledger says itself that it doesn't know exactly
    theirs = attempt.get("input_tokens"), attempt.get("output_tokens")
    if theirs == (input_tokens, output_tokens):
        return ""
    return f"input and output tokens: ledger {(input_tokens, output_tokens)}, export {theirs}"


def _known(ids: list[str]) -> Iterator[tuple[str, tuple[str, str, int, int]]]:
    with connection.cursor() as cursor:
        for start in range(0, len(ids), IDS_PER_QUERY):
            cursor.execute(_RECORDS, [ids[start : start + IDS_PER_QUERY]])
            for identity, *facts in cursor.fetchall():
                yield identity, (facts[0], facts[1], facts[2], facts[3])


def _others(ids: list[str], upstream: str) -> list[tuple[str, str]]:
    """Return what the ledger has between the first and the last attempt of the export."""
    if not ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_OTHERS, [min(ids), max(ids), upstream])
        return [(identity, state) for identity, state in cursor.fetchall()]


def _by_sum(theirs: Mapping[tuple[datetime, str], Mapping[str, int]], upstream: str) -> Reconciliation:
    days = [day for day, _ in theirs]
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, [upstream, min(days), max(days) + timedelta(days=1)])
        ours = {(row[0], row[1]): dict(zip(SUM_COLUMNS, row[2:], strict=True)) for row in cursor.fetchall()}
    differences = []
    for day, model in sorted({*theirs, *ours}):
        export, ledger = theirs.get((day, model), {}), ours.get((day, model), {})
        for column in SUM_COLUMNS:
            if column in export or not export:
                there, here = export.get(column, 0), ledger.get(column, 0)
                if abs(there - here) > TOLERANCE * max(there, here):
                    reason = f"{column}: ledger {here}, export {there}"
                    differences.append(Difference(subject=f"{day:%Y-%m-%d} {model}", reason=reason))
    return Reconciliation(compared=len(theirs), differences=tuple(differences))


SUM_COLUMNS = ("requests", "input_tokens", "output_tokens")


def _attempts(text: str) -> dict[str, Mapping[str, Any]]:
    attempts: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                attempt = orjson.loads(line)
                attempts[str(UUID(attempt["request_id"]))] = attempt
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
                msg = f"line {number}: no attempt with a request_id that Bridge sent"
                raise ExportError(msg) from None
    return attempts


def _sums(text: str) -> dict[tuple[datetime, str], dict[str, int]]:
    sums: dict[tuple[datetime, str], dict[str, int]] = {}
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    if not {"day", "model", "input_tokens", "output_tokens"} <= set(reader.fieldnames or ()):
        msg = "line 1: the columns day, model, input_tokens and output_tokens are needed"
        raise ExportError(msg)
    for cells in reader:
        day = parse_day(cells["day"] or "")
        try:
            counts = {name: int(cells[name]) for name in SUM_COLUMNS if cells.get(name)}
        except ValueError:
            counts = {}
        if day is None or not cells["model"] or not counts:
            msg = f"line {reader.line_num}: a day, a model and whole numbers are needed"
            raise ExportError(msg)
        known = sums.setdefault((day_start(day), cells["model"]), {})
        for name, count in counts.items():
            known[name] = known.get(name, 0) + count
    if not sums:
        msg = "line 1: the export is empty"
        raise ExportError(msg)
    return sums
