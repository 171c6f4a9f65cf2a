"""What one group commit carries, and how its answers reach those who wait."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from psycopg import AsyncCursor

from usage import statements
from usage.connection import Statement
from usage.errors import LedgerUnavailable
from usage.rows import Settlement, settled_row
from usage.states import State

Row = dict[str, Any]


class NoRoom(NamedTuple):
    """The budget that has no room for a reservation, and what of it is not spent."""

    budget: int
    left: int


class Asked(NamedTuple):
    """A row that somebody waits for; the answer of an open record is None, as is that of a reservation that holds."""

    row: Row
    answer: asyncio.Future[NoRoom | None]

    @property
    def is_held(self) -> bool:
        """Whether it was committed, whether or not anybody still waits."""
        return self.answer.done() and not self.answer.cancelled() and self.answer.exception() is None

    def undone(self) -> Row:
        """Return the end that takes it back: nothing was sent."""
        if "admission" in self.row:
            return release_row(self.row["admission"])
        return settled_row(Settlement(id=UUID(self.row["id"]), state=State.REFUSED, notes=("not_sent",)))


@dataclass(slots=True, kw_only=True)
class Batch:
    """Rows by kind. An end is a settled record, or a `release` of what an admission holds."""

    reservations: list[Asked] = field(default_factory=list)
    opens: list[Asked] = field(default_factory=list)
    ends: list[Row] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.reservations) + len(self.opens) + len(self.ends)

    def transactions(self) -> "list[Batch]":
        """Split where two statements of one transaction could lock budgets in different orders.

        Ends come first: what they release can be reserved again.
        """
        if not self.reservations or not self.ends:
            return [self]
        return [Batch(ends=self.ends), Batch(reservations=self.reservations, opens=self.opens)]

    def singles(self) -> "Iterator[Batch]":
        """Split into batches of one row."""
        yield from (Batch(reservations=[asked]) for asked in self.reservations)
        yield from (Batch(opens=[asked]) for asked in self.opens)
        yield from (Batch(ends=[row]) for row in self.ends)

    def statements(self, worker: str) -> list[Statement]:
        """Write the batch as one statement per kind."""
        group: list[Statement] = []
        if self.reservations:
            group.append((statements.RESERVE, [_json(_reserved(self.reservations)), worker]))
        if self.opens:
            group.append((statements.OPEN, [_json([asked.row for asked in self.opens]), worker]))
        if self.ends:
            group.append((statements.SETTLE, settle_places(self.ends)))
        return group

    async def answer(self, cursors: list[AsyncCursor[Any]]) -> list[Row]:
        """Answer those who wait; return what takes back the rows that nobody waits for any more."""
        found = iter(cursors)
        answers: dict[str, NoRoom | None] = {}
        if self.reservations:
            answers = {
                str(admission): None if budget is None else NoRoom(budget, left)
                for admission, budget, left in await next(found).fetchall()
            }
        if self.opens:
            answers |= await _opened(self.opens, next(found))
        undone = []
        for asked in (*self.reservations, *self.opens):
            name = asked.row.get("admission") or asked.row["id"]
            if asked.answer.done():  # given up while it was on its way
                undone.append(asked.undone())
            elif name in answers:
                asked.answer.set_result(answers[name])
            else:
                asked.answer.set_exception(LedgerUnavailable("another record has this id"))
        return undone

    def fail(self, *, was_sent: bool) -> list[Row]:
        """Refuse those who wait; return the ends, and what takes the rest back if it may be committed after all."""
        asked = [one for one in (*self.reservations, *self.opens) if not one.is_held]
        for one in asked:
            if not one.answer.done():
                one.answer.set_exception(LedgerUnavailable("the ledger is away"))
        return [*self.ends, *(one.undone() for one in asked if was_sent)]


def release_row(admission: str) -> Row:
    """Return the end that releases what an admission holds."""
    return {"release": admission}


def settle_places(ends: list[Row]) -> list[object]:
    """Return what goes into `statements.SETTLE`. Of two ends of a record the first counts."""
    rows = {row["id"]: row for row in reversed(ends) if "id" in row}
    ids = list(rows) or [str(UUID(int=0))]
    return [_json(list(rows.values())), min(ids), max(ids), [row["release"] for row in ends if "release" in row]]


def _reserved(reservations: list[Asked]) -> list[Row]:
    return [
        {"place": place, "admission": asked.row["admission"], "budget": budget, "amount": amount}
        for place, asked in enumerate(reservations)
        for budget, amount in asked.row["amounts"]
    ]


async def _opened(opens: list[Asked], cursor: AsyncCursor[Any]) -> dict[str, NoRoom | None]:
    """Map the ids that are in to None; only an id that another record has is missing."""
    if cursor.rowcount == len(opens):
        return {asked.row["id"]: None for asked in opens}
    return {str(identity): None for (identity,) in await cursor.fetchall()}


def _json(rows: list[Row]) -> str:
    return orjson.dumps(rows).decode()
