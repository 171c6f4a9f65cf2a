"""Tool calls in an upstream's answer: fragments of several calls, to one block after another.

Upstreams number calls by `index`, by `id`, by both, or not at all; send names and arguments whole, in fragments, or
over and over; and mix the fragments of parallel calls. Each call is a slot. The first unfinished slot is written as it
comes; the others wait for their turn.

Source: https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-30); the quirks are shown by the
tests, each under its name.
"""

import re
from collections.abc import Callable
from typing import Any

from translator.core.answer import AnswerContext
from translator.core.block_writer import BlockWriter
from translator.core.openai_chat.tool_slot import (
    Slot,
    begins_call,
    goes_on,
    index_of,
    is_another_whole_call,
    name_and_arguments,
)

__all__ = ["MALFORMED", "ToolCalls"]

MALFORMED = "upstream sent malformed tool arguments"
#: What clients take as the id of a tool call.
CLEAN_ID = re.compile(r"[A-Za-z0-9_-]{1,256}")
UNCLEAN = re.compile(r"[^A-Za-z0-9_-]")
MAX_ID = 256
#: More calls than this in one answer are dropped.
MAX_CALLS = 512


class ToolCalls:
    """Write the calls of one answer."""

    def __init__(self, blocks: BlockWriter, answer: AnswerContext, new_id: Callable[[str], str]) -> None:
        """Start before the first call.

        Args:
            blocks: Where the blocks go.
            answer: What the request offered.
            new_id: Gives a unique id with the prefix it is called with.
        """
        #: Calls that were written.
        self.count = 0
        #: Characters of arguments that came.
        self.characters = 0
        #: What was repaired or dropped, as short codes.
        self.notes: list[str] = []
        #: Set once arguments broke after a part of them was sent: the answer cannot be completed.
        self.is_broken = False
        #: Whether a call was left incomplete, since the upstream ran out of tokens.
        self.is_cut = False
        #: Whether nothing is written before the end, so that what is broken can be replaced.
        self.is_whole = False
        self._blocks = blocks
        self._answer = answer
        self._new_id = new_id
        self._slots: list[Slot] = []
        self._by_index: dict[int, Slot | None] = {}
        self._by_id: dict[str, Slot] = {}
        self._active = 0
        self._used_ids = set(answer.history_tool_ids)

    @property
    def has_any(self) -> bool:
        """Whether the model has called anything, written by now or not."""
        return bool(self._slots)

    @property
    def is_busy(self) -> bool:
        """Whether a call is being written, so that nothing else can be."""
        return self._active < len(self._slots) and self._slots[self._active].is_started

    def feed(self, entries: list[Any]) -> None:
        """Read the `tool_calls` of a delta or message."""
        for entry in entries:
            if isinstance(entry, dict):
                self._take(entry)
        if not self.is_whole:
            self._advance()

    def release(self) -> None:
        """Let a call whose arguments are complete end, since something else comes after it."""
        if self.is_busy and self._slots[self._active].reader.is_complete:
            self._end_active(is_truncated=False)

    def finish(self, *, is_truncated: bool) -> None:
        """Write what waits, in order.

        Args:
            is_truncated: Whether the upstream ran out of tokens; a last call may then stay incomplete.
        """
        while self._active < len(self._slots) and not self.is_broken:
            self._finish_active(self._slots[self._active], is_truncated=is_truncated)

    def _take(self, entry: dict[str, Any]) -> None:
        name, arguments = name_and_arguments(entry)
        id_ = entry.get("id")
        id_ = id_ if isinstance(id_, str) else ""
        slot = self._slot_for(index_of(entry), id_, name, arguments)
        if slot is None:
            return
        if id_ and not slot.id:
            slot.id = id_
            self._by_id.setdefault(id_, slot)
        if name and not slot.is_started and not (slot.name and slot.has_arguments):
            slot.name = self._joined_name(slot.name, name)
        if arguments:
            self.characters += len(arguments)
            slot.add_arguments(arguments)

    def _slot_for(self, index: int | None, id_: str, name: str, arguments: str) -> Slot | None:
        """Return the slot that an entry belongs to; None when there are too many."""
        if self.is_whole:
            return self._new_slot(id_)
        if index is not None:
            slot = self._by_index[index] = self._slot_by_index(index, id_, name, arguments)
            return slot
        if id_ in self._by_id:
            return self._by_id[id_]
        last = self._slots[-1] if self._slots else None
        if last is None or (id_ and name and (last.id or last.name)):
            return self._new_slot(id_)
        if id_ or not name:
            return last
        return self._new_slot("") if begins_call(last, name, arguments) else last

    def _slot_by_index(self, index: int, id_: str, name: str, arguments: str) -> Slot | None:
        slot = self._by_index.get(index)
        known = self._by_id.get(id_)
        if slot is None:
            # A known id under a new index is the same call; with a name it is a call that took another's id.
            return known if known and not name else self._new_slot(id_)
        if known is not None:
            return known
        if not name:
            return slot
        is_other = (
            bool(slot.id) and not goes_on(slot, name, arguments) if id_ else is_another_whole_call(slot, arguments)
        )
        return self._new_slot(id_) if is_other else slot

    def _new_slot(self, id_: str) -> Slot | None:
        if len(self._slots) >= MAX_CALLS:
            self._note("tool_calls_dropped")
            return None
        slot = Slot()
        slot.id = id_
        self._slots.append(slot)
        if id_:
            self._by_id.setdefault(id_, slot)
        return slot

    def _joined_name(self, name: str, fragment: str) -> str:
        """Return the name with one more fragment: some upstreams cut names, others send them again whole."""
        if fragment == name or name.endswith(fragment):
            return name
        if any(tool.startswith(name + fragment) for tool in self._answer.tools):
            return name + fragment
        return fragment

    def _advance(self) -> None:
        while self._active < len(self._slots) and not self.is_broken:
            slot = self._slots[self._active]
            has_successor = self._active + 1 < len(self._slots)
            if not slot.is_started and not self._may_start(slot, has_successor=has_successor):
                return
            self._start(slot)
            self._send_ready(slot)
            if not slot.reader.is_complete or (slot.is_empty_object and not has_successor):
                return
            self._end_active(is_truncated=False)

    def _may_start(self, slot: Slot, *, has_successor: bool) -> bool:
        if not slot.name:
            return False
        tools = self._answer.tools
        is_final = slot.name in tools and not any(t != slot.name and t.startswith(slot.name) for t in tools)
        return is_final or slot.has_arguments or has_successor

    def _start(self, slot: Slot) -> None:
        if slot.is_started:
            return
        slot.is_started = True
        if self._is_dropped:
            return
        self._blocks.open_tool_use(id=self._unique_id(slot.id), name=self._client_name(slot.name))

    def _client_name(self, name: str) -> str:
        """Return the client's name for a tool, without what gpt-oss leaves around it (`functions.Read<|channel|>..`)."""
        bare = name.removeprefix("functions.").partition("<|")[0]
        name = bare if bare in self._answer.tools else name
        return self._answer.tool_names.get(name, name)

    @property
    def _is_dropped(self) -> bool:
        return self.count > 0 and not self._answer.parallel_tools

    def _send_ready(self, slot: Slot) -> None:
        if slot.reader.is_broken:
            self.is_broken = slot.is_sent
        elif slot.reader.has_key and (ready := slot.take_ready()):
            self._send(ready)
            slot.is_sent, slot.raw = True, []

    def _send(self, partial_json: str) -> None:
        if partial_json and not self._is_dropped:
            self._blocks.input_json(partial_json)

    def _end_active(self, *, is_truncated: bool) -> None:
        slot = self._slots[self._active]
        self._send(slot.take_ready() if slot.is_sent else slot.whole_input(is_truncated=is_truncated))
        if self._is_dropped:
            self._note("parallel_tool_dropped")
        else:
            self._blocks.close()
            self.count += 1
        self._active += 1

    def _finish_active(self, slot: Slot, *, is_truncated: bool) -> None:
        slot.name = slot.name or self._only_tool()
        if not slot.name:
            self._note("tool_without_name_dropped")
            self._active += 1
            return
        self._start(slot)
        if slot.is_sent and not slot.reader.is_complete and (slot.reader.is_broken or not is_truncated):
            self.is_broken = True
        else:
            self.is_cut = self.is_cut or (is_truncated and slot.reader.is_begun and not slot.reader.is_complete)
            self._end_active(is_truncated=is_truncated)

    def _only_tool(self) -> str:
        if self._answer.forced_tool:
            return self._answer.forced_tool
        return next(iter(self._answer.tools)) if len(self._answer.tools) == 1 else ""

    def _unique_id(self, id_: str) -> str:
        """Return the upstream's own id where a client can take it: it is what the upstream sees again."""
        if not CLEAN_ID.fullmatch(id_):
            id_ = UNCLEAN.sub("_", id_[:MAX_ID]) or self._new_id("toolu")
        if id_ in self._used_ids:
            id_ = f"{id_}_{self._new_id('toolu').rpartition('_')[2]}"
        self._used_ids.add(id_)
        return id_

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
