"""How the upstream models answer: from the sums of their attempts, and from what was noted on the records."""
# ruff: noqa: S608  (statements are built from the tables of words; what was asked for goes in as parameters)

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db import connection
from django.utils import timezone

from translator.core.emulation.kinds import EMULATION, REPAIRS
from usage.histogram import BUCKETS
from usage.ids import first_id_at, moment_of
from usage.pages.notes import is_mended
from usage.periods import CLOCK_SLACK, is_midnight
from usage.reports import Question, kept
from usage.sources import Source, source_for
from usage.states import State
from usage.tallies import Fared, Tally

#: A longer time is for reports.
SPAN_MAX = timedelta(days=31)
_COLUMNS = ("upstream_id", "upstream_name", "upstream_model", "state", "error_type")


def time_before(question: Question) -> datetime:
    """Return when the time began that a question's is compared with: as long, and just before it."""
    return question.start - (question.end - question.start)


def answers(question: Question, *, limit: int) -> list[Fared]:
    """Return the upstream models of a question's time, the most used first. Its groups don't matter.

    Args:
        limit: The most models.

    Raises:
        ValueError: The time is longer than `SPAN_MAX`.
    """
    if question.end - question.start > SPAN_MAX:
        msg = f"answers can be shown of {SPAN_MAX.days} days at most"
        raise ValueError(msg)
    found = _tallied(question, limit)
    _add_notes(found, question)
    return list(found.values())


Found = Mapping[tuple[int | None, str], Fared]


def _tallied(question: Question, limit: int) -> Found:
    before = time_before(question)
    by_hour = not (is_midnight(question.start) and is_midnight(question.end))
    source = source_for([*question.columns, *_COLUMNS], question.scope, before, question.end, by_hour=by_hour)
    where, values = kept(question)
    # The first histogram is that of the times to the first token.
    buckets = source.buckets[:BUCKETS]
    statement = _sums(source, f"{source.span} >= %s AND {source.span} < %s {where}", buckets, limit)
    places: list[Any] = [question.start, question.start, *source.places, before, question.end, *values]
    with connection.cursor() as cursor:
        cursor.execute(statement, places)
        rows = cursor.fetchall()
    found: dict[tuple[int | None, str], Fared] = {}
    for (upstream_id, model), group in groupby(rows, key=lambda row: (row[0], row[1])):
        fared = found[upstream_id, model] = Fared(upstream_id=upstream_id, upstream="", model=model)
        for _, _, name, state, error_type, is_now, attempts, estimated, *times in group:
            fared.upstream = max(fared.upstream, name)
            _add(fared.now if is_now else fared.before, state, error_type, attempts, estimated, times)
    return found


def _sums(source: Source, wanted: str, buckets: Iterable[str], limit: int) -> str:
    """Write a query for the sums by model, state, error and time, all of a model's rows together."""
    attempts, is_now = source.sums["attempts"], f"{source.span} >= %s"
    times = "".join(f", ({aggregate})::bigint AS b{at}" for at, aggregate in enumerate(buckets))
    return f"""
        SELECT upstream_id, upstream_model, upstream_name, state, error_type, is_now, attempts, estimated
            {"".join(f", b{at}" for at, _ in enumerate(buckets))}
        FROM (
            SELECT *, dense_rank() OVER (ORDER BY used DESC, upstream_id, upstream_model) AS place
            FROM (
                SELECT upstream_id, upstream_model, max(upstream_name) AS upstream_name, state, error_type,
                    {is_now} AS is_now, ({attempts})::bigint AS attempts,
                    ({source.sums["estimated"]})::bigint AS estimated,
                    sum({attempts}) FILTER (WHERE {is_now}) OVER (PARTITION BY upstream_id, upstream_model) AS used
                    {times}
                FROM {source.sql} WHERE {wanted}
                GROUP BY upstream_id, upstream_model, state, error_type, is_now
            ) AS sums WHERE used > 0
        ) AS ranked WHERE place <= {limit} ORDER BY place"""


def _add(tally: Tally, state: str, error_type: str, attempts: int, estimated: int, times: Iterable[int | None]) -> None:
    tally.states[state] += attempts
    if state == State.OK:
        tally.estimated += estimated
    if state == State.UPSTREAM_ERROR:
        tally.error_types[error_type] += attempts
    counts = [count or 0 for count in times]
    tally.ttft_histogram = [a + b for a, b in zip(tally.ttft_histogram or [0] * len(counts), counts, strict=True)]


def _add_notes(found: Found, question: Question) -> None:
    """Count what was noted: the records that have notes are read from an index of nothing else."""
    before = time_before(question)
    for upstream_id, model, notes, seen, now, earlier in _noted(question, before):
        # What began to be noted after the sums were read is for the next time.
        if fared := found.get((upstream_id, model)):
            kinds = set(notes)
            fared.notes.update({note: seen for note in kinds if seen})
            _add_noted(fared.now, kinds, now)
            _add_noted(fared.before, kinds, earlier)
    known_since = _records_since()
    for fared in found.values():
        for tally, start in ((fared.now, question.start), (fared.before, before)):
            if known_since and start < known_since:
                tally.mended = tally.emulated = tally.repaired = None


def _add_noted(tally: Tally, kinds: set[str], count: int) -> None:
    if any(map(is_mended, kinds)):
        tally.mended = (tally.mended or 0) + count
    if EMULATION in kinds:
        tally.emulated = (tally.emulated or 0) + count
        if kinds.intersection(REPAIRS):
            tally.repaired = (tally.repaired or 0) + count


#: Notes with a value of their own are as many as requests; the same notes without one go beside them.
_KINDS = """CASE WHEN notes && '{compaction_clip,compaction_summary,compaction_trim}'
    THEN ARRAY(SELECT note FROM unnest(notes) AS note WHERE note !~ '^compaction_(by|clipped|covered|saved)_')
    ELSE notes END"""


def _noted(question: Question, before: datetime) -> Iterable[tuple[int | None, str, list[str], int, int, int]]:
    """Give (upstream, model, notes, records, answers, answers before) of the records that have the same notes."""
    where, values = kept(question)
    statement = f"""
        SELECT upstream_id, upstream_model, {_KINDS} AS kinds,
            count(*) FILTER (WHERE started_at >= %s),
            count(*) FILTER (WHERE started_at >= %s AND state = 'ok'),
            count(*) FILTER (WHERE started_at < %s AND state = 'ok')
        FROM usage_usagerecord
        WHERE id >= %s AND id < %s AND started_at >= %s AND started_at < %s AND notes <> '{{}}' {where}
        GROUP BY upstream_id, upstream_model, kinds"""
    bounds = [first_id_at(before - CLOCK_SLACK), first_id_at(question.end + CLOCK_SLACK), before, question.end]
    places: list[Any] = [*[question.start] * 3, *bounds, *values]
    with connection.cursor() as cursor:
        cursor.execute(statement, places)
        rows: list[tuple[int | None, str, list[str], int, int, int]] = cursor.fetchall()
    return rows


def _records_since() -> datetime | None:
    """Return when the records begin, if they were dropped while their sums stayed; None when all are there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT id FROM usage_usagerecord ORDER BY id LIMIT 1), (SELECT min(day) FROM usage_usageday)"
        )
        first, first_day = cursor.fetchone() or (None, None)
    since = timezone.now() if first is None else moment_of(first)
    is_whole = first_day is None or since - CLOCK_SLACK < first_day + timedelta(days=1)
    return None if is_whole else since
