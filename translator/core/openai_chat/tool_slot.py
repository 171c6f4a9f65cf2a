"""One tool call of an upstream, as far as it has come."""

from typing import Any

import orjson

from translator.core.tool_json import ObjectReader, settle_arguments

__all__ = ["Slot", "begins_call", "goes_on", "index_of", "is_another_whole_call", "name_and_arguments"]

#: Digits of an index that is written as text.
INDEX_DIGITS = 9


class Slot:
    """The fragments of one call."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self.id = ""
        self.name = ""
        self.reader = ObjectReader()
        #: Arguments as they came, until a part of them is sent.
        self.raw: list[str] = []
        #: Arguments that were accepted and not sent yet.
        self.ready: list[str] = []
        #: All arguments that were accepted, of a call without an id: nothing else tells it from the next one.
        self.accepted: list[str] = []
        #: All fragments, without what was sent again; their length; and whether upstream sends them again and again.
        self._fragments: list[str] = []
        self._size = 0
        self._sends_sums = False
        #: Whether the call's block was opened.
        self.is_started = False
        #: Whether a part of the arguments was sent.
        self.is_sent = False

    @property
    def has_arguments(self) -> bool:
        """Whether any arguments came."""
        return self.is_sent or bool(self.raw)

    @property
    def is_empty_object(self) -> bool:
        """Whether the arguments are an empty object, as far as they have come."""
        return self.reader.is_complete and not self.reader.has_key

    def add_arguments(self, fragment: str) -> None:
        """Read more of the arguments; what follows a complete object is ignored."""
        if not fragment.strip() and not self.has_arguments:
            return
        if self.is_empty_object and fragment.lstrip().startswith("{"):
            # Some upstreams send an empty object first, and then the arguments.
            self.reader, self.raw, self.ready, self.accepted = ObjectReader(), [], [], []
            self._fragments, self._size = [], 0
        if self._is_sum(fragment):
            self._sends_sums, fragment = True, fragment[self._size :]
        self._fragments.append(fragment)
        self._size += len(fragment)
        if not self.is_sent:
            self.raw.append(fragment)
        accepted = self.reader.feed(fragment)
        self.ready.append(accepted)
        if not self.id:
            self.accepted.append(accepted)

    def _is_sum(self, fragment: str) -> bool:
        """Tell whether a fragment is all arguments so far, and more: no object goes on so but where a value begins."""
        if len(fragment) < self._size or not self.reader.is_begun or not fragment.startswith("{"):
            return False
        return (self._sends_sums or not self.reader.expects_value) and fragment.startswith("".join(self._fragments))

    def take_ready(self) -> str:
        """Return the accepted arguments that were not sent yet."""
        ready = "".join(self.ready)
        self.ready = []
        return ready

    def whole_input(self, *, is_truncated: bool) -> str:
        """Return the input of a call of which nothing was sent, repaired or reported as invalid."""
        if self.reader.is_complete and self.reader.has_key:
            return self.take_ready()
        return orjson.dumps(settle_arguments("".join(self.raw), is_truncated=is_truncated)).decode()


def begins_call(last: Slot, name: str, arguments: str) -> bool:
    """Tell whether an entry with a name, but neither index nor id, is a new call after `last`."""
    if not last.has_arguments:
        return bool(arguments) and bool(last.name) and name != last.name and not name.startswith(last.name)
    if last.reader.is_complete:
        return True
    reader = ObjectReader()
    reader.feed(arguments)
    return reader.is_complete


def goes_on(slot: Slot, name: str, arguments: str) -> bool:
    """Tell whether an entry with another id goes on with a call all the same: some upstreams make up an id a fragment."""
    is_open = slot.reader.is_begun and not (slot.reader.is_complete or slot.reader.is_broken)
    return is_open and name == slot.name and bool(arguments) and not arguments.lstrip().startswith("{")


def is_another_whole_call(slot: Slot, arguments: str) -> bool:
    """Tell whether an entry with a name, but no id, is a call after a complete one, and not the same sent again."""
    if slot.id or not slot.reader.is_complete or not slot.reader.has_key:
        return False
    reader = ObjectReader()
    accepted = reader.feed(arguments)
    return reader.is_complete and accepted != "".join(slot.accepted)


def index_of(entry: dict[str, Any]) -> int | None:
    """Return the number of an entry's call, which some upstreams write as text or with a fraction; None without one."""
    index = entry.get("index")
    if isinstance(index, str):
        return int(index) if index.isascii() and index.isdigit() and len(index) <= INDEX_DIGITS else None
    return int(index) if isinstance(index, int | float) and index == index // 1 else None


def name_and_arguments(entry: dict[str, Any]) -> tuple[str, str]:
    """Return name and arguments of an entry, as text; empty where it has none. They may stand in the entry itself."""
    match entry:
        case {"function": dict() as function}:
            pass
        case {"custom": dict() as custom}:
            function = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
        case _:
            function = entry
    name, arguments = function.get("name"), function.get("arguments")
    return name.strip() if isinstance(name, str) else "", _as_text(arguments)


def _as_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    try:
        return orjson.dumps(arguments).decode()
    except orjson.JSONEncodeError:
        return "nested too deep"
