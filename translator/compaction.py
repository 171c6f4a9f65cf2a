"""Summaries of long conversations: who asks a model for them, who waits, who keeps them.

A summary is asked for by a call of its own, on the ordinary way: pool, budgets, rate limits, and a usage record of the same
token. Mostly nobody waits for it, as it is begun while the conversation still fits; else the call waits a little, and
goes on trimmed where it isn't there in time. It is written in any case, for the next turn. Whatever fails here, the
member's own call goes on.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import orjson

from keys.entries import RouteEntry, Target
from translator.bookkeeping import Caller
from translator.calls import Call, Goal, Prepared, new_id
from translator.core.anthropic.request import MessagesRequest
from translator.core.calibration import Calibration
from translator.core.compaction.fingerprints import prefix_fingerprints
from translator.core.compaction.plan import Plan
from translator.core.compaction.rules import Limits
from translator.core.compaction.steady import SteadyFactors
from translator.core.compaction.summaries import Summary, Wanted, summary_request, summary_text
from translator.core.errors import TranslationError
from translator.core.estimate import estimate_input_tokens
from translator.core.openai_chat.adapt import Adaptation
from translator.long_history import LongHistory
from translator.messages_call import MessagesCall
from translator.offload import off_loop
from translator.tries import CallFailed
from usage.summaries import SummaryStore, SummaryStoreAway

logger = logging.getLogger(__name__)

#: Who calls, on the record of a summary.
CLIENT = "Bridge"
#: Says on the record of a summary what it is.
NOTE = "compaction"
#: A summary that takes longer is given up.
SUMMARY_S = 120.0
#: After one that failed, a conversation goes without for so long.
PAUSE_S = 60.0
#: Rows count as unused while nobody reads them, so they are read again now and then.
READ_AGAIN_S = 600.0
#: What nobody has asked for is forgotten, since it is a member's prompt in plain text.
FORGOTTEN_S = 3600.0
CONVERSATIONS_MAX = 256
SUMMARIES_MAX = 4
#: So many are written at once by one worker; what comes on top is trimmed.
AT_ONCE_MAX = 16

#: A member's id and the digest of a conversation.
type Key = tuple[int, str]


class SummaryCall(MessagesCall):
    """Asks a model for a summary."""

    def prepare(self, goal: Goal, lessons: Sequence[Adaptation]) -> Prepared:
        prepared = super().prepare(goal, lessons)
        return replace(prepared, notes=(NOTE, *prepared.notes))


@dataclass(slots=True)
class Memory:
    """What a worker knows of one conversation."""

    summaries: tuple[Summary, ...] = ()
    read_at: float = float("-inf")
    used_at: float = 0.0
    #: No summary is asked for before then.
    not_before: float = 0.0
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A summary that a call could do with."""

    key: Key
    memory: Memory = field(repr=False)
    wanted: Wanted
    is_urgent: bool
    limits: Limits
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
            memory.task = asyncio.create_task(self._write(wish, history.request, call.size, caller), name="summary")
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
        memory.summaries = tuple({one.fingerprint: one for one in (*memory.summaries, *found)}.values())
        return True

    async def _write(self, wish: Wish, request: MessagesRequest, size: int, caller: Caller) -> None:
        """Have a model write the summary, and keep it."""
        loop = asyncio.get_running_loop()
        wish.memory.not_before = loop.time() + PAUSE_S
        asked = await off_loop(size, summary_request, request, wish.wanted, limits=wish.limits, model=wish.alias)
        caller = caller_for(caller, arrived_at=loop.time(), is_alias_given=wish.is_alias_given)
        try:
            async with asyncio.timeout(SUMMARY_S):
                answered = await self._answer(call_for(asked, caller.request_id), caller)
            text = summary_text(text_of(answered.reply.body), wish.limits)
        except (CallFailed, TranslationError, TimeoutError, ValueError) as exc:
            told = exc.error.type.value if isinstance(exc, CallFailed) else type(exc).__name__
            logger.warning("request %s wrote no summary: %s", caller.request_id, told)
            return
        if not text:
            logger.warning("request %s wrote an empty summary", caller.request_id)
            return
        summary = Summary(
            covered=wish.wanted.covered,
            fingerprint=wish.wanted.fingerprint,
            text=text,
            request_id=caller.request_id,
        )
        wish.memory.summaries = (summary, *wish.memory.summaries)[:SUMMARIES_MAX]
        wish.memory.not_before = 0.0
        try:
            await self._store.write(*wish.key, summary, written_by=wish.alias)
        except SummaryStoreAway as exc:
            logger.warning("%s", exc)

    def _ended(self, task: asyncio.Task[None], memory: Memory) -> None:
        self._tasks.discard(task)
        memory.task = None
        if not task.cancelled() and (exc := task.exception()):
            logger.error("a summary failed", exc_info=exc)


def key_of(user_id: int, call: Call, request: MessagesRequest) -> Key:
    """Name a conversation: whose it is, the client's session, the alias, and how it begins.

    Sub-agents share their session and begin differently; clients without sessions are told apart by beginnings alone. That
    two conversations might still share a key does no harm: a summary is used only where all that it covers is the same.
    """
    head = next((place + 1 for place, message in enumerate(request.messages) if message["role"] == "user"), 0)
    opening = prefix_fingerprints(request.messages, [head])[head]
    parts = orjson.dumps([user_id, call.session_id or "", call.alias, opening])
    return user_id, sha256(parts).hexdigest()


def caller_for(caller: Caller, *, arrived_at: float, is_alias_given: bool) -> Caller:
    """Return who asks for a summary: the same member and token, in a request of its own.

    The token's limit of calls at once is left aside, since a summary must not keep out the call that it is written for;
    and its scopes are, where the operator chose the alias.
    """
    token = replace(caller.token, concurrency=None)
    if is_alias_given:
        token = replace(token, scopes=())
    return replace(
        caller, token=token, request_id=new_id("req"), client_name=CLIENT, client_version="", arrived_at=arrived_at
    )


def call_for(request: MessagesRequest, request_id: str) -> SummaryCall:
    return SummaryCall(
        request,
        size=len(orjson.dumps(request.body)),
        request_id=request_id,
        session_id=None,
        estimate=estimate_input_tokens(request),
        headers=(),
        may_compact=False,
    )


def text_of(body: bytes) -> str:
    """Return the text of a whole answer; nothing where it holds none."""
    match orjson.loads(body):
        case {"content": list(blocks)}:
            return "\n\n".join(block["text"] for block in blocks if isinstance(block, dict) and "text" in block)
        case _:
            return ""
