"""A history measured: how large it is, where it may be cut, and how large it would be then.

The *head* is all up to the first user message, which says what the conversation is about; it always stays. A *cut* is the
index of the first message that stays behind it. It is always an assistant's message that answers a user's, so that roles
go on alternating, and never between a tool call and its result. System messages amid the history are kept wherever
the cut is: they may still be in force, or change the tools.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from translator.core.anthropic.request import MessagesRequest
from translator.core.estimate import estimate_input_tokens, message_tokens

__all__ = ["Measured", "measure", "with_messages"]

type Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The messages of a request with what is known of them, in estimated tokens."""

    request: MessagesRequest
    messages: list[Message]
    #: How many messages the head is; 0 when there is no user message.
    head: int
    #: Where it may be cut, ascending; each leaves something out.
    places: list[int]
    #: System prompt, tools and schema.
    base: float
    #: Tokens of the first n messages.
    upto: list[float]
    #: Of the first n messages, the tokens of system messages behind the head that stay whatever is cut.
    kept_upto: list[float]

    def whole(self, end: int | None = None) -> float:
        """Return the size with nothing left out, up to message `end`."""
        return self.base + self.upto[len(self.messages) if end is None else end]

    def size(self, cut: int, end: int | None = None) -> float:
        """Return the size when everything between the head and `cut` is left out but for system messages."""
        tail = self.whole(end) - self.base - self.upto[cut]
        return self.base + self.upto[self.head] + self.kept_upto[cut] + tail

    def first_fitting(self, room: float, *, after: int = 0, end: int | None = None) -> int | None:
        """Return the first cut after `after` that leaves no more than `room`, else the last there is; None for none."""
        low = bisect_right(self.places, after)
        high = bisect_left(self.places, len(self.messages) if end is None else end)
        # The later the cut, the smaller the rest.
        at = bisect_left(self.places, True, low, high, key=lambda place: self.size(place, end) <= room)
        return self.places[min(at, high - 1)] if low < high else None

    def left_out(self, cut: int) -> int:
        """Return how many messages a cut leaves out."""
        return sum(not self._is_kept(index) for index in range(self.head, cut))

    def cut_at(self, cut: int, note: str) -> MessagesRequest:
        """Return the request with a text in place of what lies between the head and `cut`."""
        kept = [message for index, message in enumerate(self.messages[:cut]) if self._is_kept(index)]
        first = self.messages[self.head - 1]
        return with_messages(
            self.request,
            [*self.messages[: self.head - 1], _and_said(first, note), *kept, *self.messages[cut:]],
        )

    def _is_kept(self, index: int) -> bool:
        return index >= self.head and _stays(self.messages[index])


def measure(request: MessagesRequest, messages: list[Message] | None = None) -> Measured:
    """Measure a request.

    Args:
        request: The request.
        messages: Its messages where they have been changed.
    """
    messages = request.messages if messages is None else messages
    head = next((index + 1 for index, message in enumerate(messages) if message["role"] == "user"), 0)
    tokens = [message_tokens(message) for message in messages]
    kept = [count if index >= head and _stays(messages[index]) else 0.0 for index, count in enumerate(tokens)]
    return Measured(
        request=request,
        messages=messages,
        head=head,
        places=_places(messages, head) if head else [],
        base=estimate_input_tokens(replace(request, messages=[])),
        upto=list(accumulate(tokens, initial=0.0)),
        kept_upto=list(accumulate(kept, initial=0.0)),
    )


def with_messages(request: MessagesRequest, messages: list[Message]) -> MessagesRequest:
    """Return the request with other messages, in its body too."""
    return replace(request, messages=messages, body={**request.body, "messages": messages})


def _stays(message: Message) -> bool:
    """A system message stays unless the next user message clears it: that one has come."""
    return message["role"] == "system" and message.get("clear_at") != "next_user_message"


def _and_said(message: Message, note: str) -> Message:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks, {"type": "text", "text": note}]}


def _places(messages: list[Message], head: int) -> list[int]:
    parting = _parting(messages)
    leaves_out = [*accumulate((not _stays(message) for message in messages[head:]), max, initial=False)]
    return [
        index
        for index, (before, message) in enumerate(pairwise(messages), start=1)
        if index >= head
        and leaves_out[index - head]
        and message["role"] == "assistant"
        and before["role"] != "assistant"
        and not parting[index]
    ]


def _parting(messages: list[Message]) -> list[int]:
    """Return for each index how many tool calls before it have results at or after it."""
    changes = [0] * (len(messages) + 1)
    calls: dict[str, int] = {}
    for index, message in enumerate(messages):
        for block in _blocks(message):
            match block:
                case {"type": "tool_use", "id": str(tool_use_id)}:
                    calls[tool_use_id] = index
                case {"type": "tool_result", "tool_use_id": str(tool_use_id)} if tool_use_id in calls:
                    changes[calls[tool_use_id] + 1] += 1
                    changes[index + 1] -= 1
                case _:
                    pass
    return list(accumulate(changes))


def _blocks(message: Message) -> Iterable[Mapping[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else ()
