"""Making the checks of a model: a few at once, whoever does the asking."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import orjson

from translator.core.model_checks.checks import CHECKS, Check, judge
from translator.core.model_checks.heard import Heard
from translator.core.model_checks.judges import Finding

__all__ = ["AT_ONCE", "DEADLINE_S", "Ask", "Outcome", "check_model", "check_one"]

AT_ONCE = 3
#: For whoever asks: no check waits longer for its answer, in seconds.
DEADLINE_S = 60.0

#: Sends the body of a check's request, and tells what it heard within the deadline.
Ask = Callable[[Check, bytes], Awaitable[Heard]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A check that was made."""

    check: Check
    heard: Heard
    finding: Finding


async def check_one(check: Check, alias: str, ask: Ask) -> Outcome:
    """Make one check of the model behind an alias."""
    heard = await ask(check, orjson.dumps(check.request(alias)))
    return Outcome(check=check, heard=heard, finding=judge(check, heard))


async def check_model(alias: str, ask: Ask, checks: Sequence[Check] = CHECKS) -> AsyncGenerator[Outcome]:
    """Make all checks, `AT_ONCE` at a time, and give each as it ends."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def in_turn(check: Check) -> Outcome:
        async with slots:
            return await check_one(check, alias, ask)

    running = [asyncio.create_task(in_turn(check)) for check in checks]
    try:
        for ended in asyncio.as_completed(running):
            yield await ended
    finally:
        for task in running:
            task.cancel()
