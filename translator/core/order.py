"""The order of the events of a message, as one table.

`docs/events.md` draws its diagram from `ORDER`. Writers follow the table, so that no decoder, however
broken its upstream, can make a stream that the official SDKs stumble over: one `MessageStart`, first; one block
open at a time; deltas of the open block's own kind; one `MessageDelta`, after the last block; `MessageStop`, last.
"""

from collections.abc import Mapping
from enum import Enum

from translator.core.events import (
    BlockStart,
    BlockStop,
    Event,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    StreamFailed,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)

__all__ = ["ORDER", "State", "next_state"]


class State(Enum):
    """How far a message has come."""

    UNSTARTED = "unstarted"
    #: Between blocks.
    OPEN = "open"
    TEXT = "text"
    THINKING = "thinking"
    #: A thinking block has got its signature.
    SIGNED = "signed"
    TOOL_USE = "tool use"
    #: The stop reason is out.
    STOPPED = "stopped"
    ENDED = "ended"


#: State to event type to next state; what is not in it must not happen. A `BlockStart` goes by its block's type.
ORDER: Mapping[State, Mapping[type, State]] = {
    State.UNSTARTED: {
        MessageStart: State.OPEN,
        StreamFailed: State.ENDED,
    },
    State.OPEN: {
        TextBlock: State.TEXT,
        ThinkingBlock: State.THINKING,
        ToolUseBlock: State.TOOL_USE,
        MessageDelta: State.STOPPED,
        Ping: State.OPEN,
        StreamFailed: State.ENDED,
    },
    State.TEXT: {
        TextDelta: State.TEXT,
        BlockStop: State.OPEN,
        Ping: State.TEXT,
        StreamFailed: State.ENDED,
    },
    State.THINKING: {
        ThinkingDelta: State.THINKING,
        SignatureDelta: State.SIGNED,
        Ping: State.THINKING,
        StreamFailed: State.ENDED,
    },
    State.SIGNED: {
        BlockStop: State.OPEN,
        Ping: State.SIGNED,
        StreamFailed: State.ENDED,
    },
    State.TOOL_USE: {
        InputJsonDelta: State.TOOL_USE,
        BlockStop: State.OPEN,
        Ping: State.TOOL_USE,
        StreamFailed: State.ENDED,
    },
    State.STOPPED: {
        MessageStop: State.ENDED,
    },
    State.ENDED: {},
}


def next_state(state: State, event: Event) -> State:
    """Return the state after `event`; an event out of order is a bug of ours, and an AssertionError."""
    kind = type(event.block) if isinstance(event, BlockStart) else type(event)
    following = ORDER[state].get(kind)
    if following is None:
        message = f"{kind.__name__} in state {state.value}"
        raise AssertionError(message)
    return following
