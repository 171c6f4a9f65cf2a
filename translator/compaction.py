"""Summaries of long conversations: who asks a model for them, who waits, who keeps them.

A summary is asked for by a call of its own, on the ordinary way: pool, budgets, rate limits, and a usage record of the same
token. Mostly nobody waits for it, as it is begun while the conversation still fits; else the call waits a little, and
goes on trimmed where it isn't there in time. It is written in any case, for the next turn. Whatever fails here, the
member's own call goes on.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from keys.entries import RouteEntry, Target
from translator.bookkeeping import Caller
from translator.calls import Call
from translator.core.anthropic.request import MessagesRequest
from translator.core.calibration import Calibration
from translator.core.compaction.plan import Plan
from translator.core.compaction.rules import Limits
from translator.core.compaction.steady import SteadyFactors
from translator.core.compaction.summaries import Summary, Wanted, summary_request, summary_text
from translator.core.errors import TranslationError
from translator.long_history import LongHistory
from translator.offload import off_loop
from translator.summary_call import Key, call_for, caller_for, key_of, text_of
from translator.tries import CallFailed
from usage.summaries import SummaryStore, SummaryStoreAway

logger = logging.getLogger(__name__)

#: A summary that takes longer is given up.
SUMMARY_S = 120.0
#: How often to look whether another worker has written it.
LOOK_EVERY_S = 0.5
#: After one that failed, a conversation goes without for so long.
PAUSE_S = 60.0
#: Rows count as unused while nobody reads them, so they are read again now and then.
READ_AGAIN_S = 600.0
#: What nobody has asked for is forgotten, since it is a member's prompt in plain text.
FORGOTTEN_S = 3600.0
CONVERSATIONS_MAX = 256
SUMMARIES_MAX = 8
#: So many are written at once by one worker; what comes on top is trimmed.
AT_ONCE_MAX = 16


@dataclass(slots=True)
class Memory:
    """What a worker knows of one conversation."""

    summaries: tuple[Summary, ...] = ()
    read_at: float = float("-inf")
    used_at: float = 0.0
    #: No summary is asked for before then.
    not_before: float = 0.0
    task: asyncio.Task[None] | None = None

    def add(self, *summaries: Summary) -> None:
        """Take in summaries, newest first, each once.

        The newest are kept, not those that cover most: the client may have gone back and taken another way.
        """
        all_ = {one.request_id: one for one in (*summaries, *self.summaries)}
        self.summaries = tuple(all_.values())[:SUMMARIES_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A summary that a call could do with."""

    key: Key
    memory: Memory = field(repr=False)
    wanted: Wanted
    is_urgent: bool
    limits: Limits
    #: The requests that wrote what was known then.
    known: frozenset[str]
    alias: str
    #: Whether the operator chose the alias.
    is_alias_given: bool


class Compactor:
    """Has summaries written for the calls of one worker.

    Args:
        store: Where all workers keep them.
        calibration: What upstream models' own counts have been to our estimates.
        answer: Gets a call answered, as for any client.
        wait_s: How long a call may wait for its summary.
    """

    def __init__(
        self,
        store: SummaryStore,
        *,
        calibration: Calibration,
        answer: Callable[[Call, Caller], Awaitable[Any]],
        wait_s: float,
    ) -> None:
        self._store = store
        self._calibration = calibration
        self._answer = answer
        self._wait_s = wait_s
        self._steady = SteadyFactors()
        self._memories: OrderedDict[Key, Memory] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Give up what is being written."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store.close()

    async def consider(self, call: Call, caller: Caller, route: RouteEntry) -> Wish | None:
        """Find out what will be sent of a call; return the summary that it lacks, mostly None."""
        history, target = call.history, route.targets[0]
        if history is None:
            return None
        history.steady = self._steady.at
        factor = self._calibration.factor((target.upstream.id, target.model_name))
        ruled = history.rules_for(target.model, factor)
        if ruled is None:
            return None
        rules, held = ruled
        if rules.mode == "trim":
            history.expect(await off_loop(call.size, history.plan, target.model, factor))
            return None
        key = key_of(caller.token.user_id, call, history.request)
        memory, plan = await self._recalled(key, call, history, target, factor)
        history.expect(plan)
        if plan is None or plan.wanted is None:
            return None
        given = target.model.summary_alias if target.model else ""
        return Wish(
            key=key,
            memory=memory,
            wanted=plan.wanted,
            is_urgent=plan.is_urgent,
            limits=rules.limits(held),
            known=frozenset(one.request_id for one in memory.summaries),
            alias=given or call.alias,
            is_alias_given=bool(given),
        )

    async def grant(self, wish: Wish, call: Call, caller: Caller) -> None:
        """Have a summary written unless that goes on already; wait a little where it matters."""
        memory, history, now = wish.memory, call.history, asyncio.get_running_loop().time()
        assert history is not None  # noqa: S101  (a wish comes of one)
        if memory.task is None:
            if now < memory.not_before or len(self._tasks) >= AT_ONCE_MAX:
                return
            memory.task = asyncio.create_task(self._obtain(wish, history.request, call.size, caller), name="summary")
            self._tasks.add(memory.task)
            memory.task.add_done_callback(lambda task: self._ended(task, memory))
        if wish.is_urgent:
            await asyncio.wait({memory.task}, timeout=self._wait_s)
            history.use(memory.summaries)

    async def _recalled(
        self, key: Key, call: Call, history: LongHistory, target: Target, factor: float
    ) -> tuple[Memory, Plan | None]:
        """Plan with the summaries that are known here, and, where those don't do, with those that Postgres knows."""
        now = asyncio.get_running_loop().time()
        memory = self._remembered(key, now)
        is_fresh = now - memory.read_at > READ_AGAIN_S and await self._read(key, memory)
        history.use(memory.summaries)
        plan = await off_loop(call.size, history.plan, target.model, factor)
        if plan and plan.wanted and not is_fresh and memory.task is None and await self._read(key, memory):
            history.use(memory.summaries)
            plan = await off_loop(call.size, history.plan, target.model, factor)
        return memory, plan

    def _remembered(self, key: Key, now: float) -> Memory:
        """Return what is known of a conversation; forget those that were not asked for lately."""
        while self._memories:
            oldest, other = next(iter(self._memories.items()))
            if len(self._memories) <= CONVERSATIONS_MAX and now - other.used_at < FORGOTTEN_S:
                break
            del self._memories[oldest]
        memory = self._memories.setdefault(key, Memory())
        memory.used_at = now
        self._memories.move_to_end(key)
        return memory

    async def _read(self, key: Key, memory: Memory) -> bool:
        """Take in what Postgres knows; False when it can't be asked."""
        try:
            found = await self._store.read(*key)
        except SummaryStoreAway as exc:
            logger.warning("%s", exc)
            return False
        memory.read_at = asyncio.get_running_loop().time()
        memory.add(*found)
        return True

    async def _obtain(self, wish: Wish, request: MessagesRequest, size: int, caller: Caller) -> None:
        """Get the summary, from another worker if one is at it, else from a model."""
        try:
            async with asyncio.timeout(SUMMARY_S):
                while not await self._has_claimed(wish.key):
                    await asyncio.sleep(LOOK_EVERY_S)
                    if await self._has_news(wish):
                        return
                try:
                    if not await self._has_news(wish):
                        await self._write(wish, request, size, caller)
                finally:
                    await self._release(wish.key)
        except TimeoutError:
            logger.warning("no summary in time for request %s", caller.request_id)

    async def _has_claimed(self, key: Key) -> bool:
        try:
            return await self._store.claim(key[1])
        except SummaryStoreAway:
            return True

    async def _release(self, key: Key) -> None:
        with suppress(SummaryStoreAway):
            await self._store.release(key[1])

    async def _has_news(self, wish: Wish) -> bool:
        """Tell whether summaries have come to be known since the wish was made."""
        await self._read(wish.key, wish.memory)
        return not {one.request_id for one in wish.memory.summaries} <= wish.known

    async def _write(self, wish: Wish, request: MessagesRequest, size: int, caller: Caller) -> None:
        """Have a model write the summary, and keep it."""
        loop = asyncio.get_running_loop()
        wish.memory.not_before = loop.time() + PAUSE_S
        asked = await off_loop(size, summary_request, request, wish.wanted, limits=wish.limits, model=wish.alias)
        caller = caller_for(caller, arrived_at=loop.time(), is_alias_given=wish.is_alias_given)
        try:
            answered = await self._answer(call_for(asked, caller.request_id), caller)
            text = summary_text(text_of(answered.reply.body), wish.limits)
        except (CallFailed, TranslationError, ValueError) as exc:
            told = exc.error.type.value if isinstance(exc, CallFailed) else type(exc).__name__
            logger.warning("request %s wrote no summary: %s", caller.request_id, told)
            return
        if not text:
            logger.warning("request %s wrote an empty summary", caller.request_id)
            return
        wish.memory.not_before = 0.0
        summary = Summary(
            covered=wish.wanted.covered,
            fingerprint=wish.wanted.fingerprint,
            text=text,
            request_id=caller.request_id,
        )
        wish.memory.add(summary)
        try:
            await self._store.write(*wish.key, summary, written_by=wish.alias)
        except SummaryStoreAway as exc:
            logger.warning("%s", exc)

    def _ended(self, task: asyncio.Task[None], memory: Memory) -> None:
        self._tasks.discard(task)
        memory.task = None
        if not task.cancelled() and (exc := task.exception()):
            logger.error("a summary failed", exc_info=exc)
