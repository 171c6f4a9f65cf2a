"""The events that every dialect decodes to: the Messages API's own stream, without its indexes.

A message is `MessageStart`, then blocks (`BlockStart`, deltas of the block's kind, `BlockStop`),
then `MessageDelta` and `MessageStop`. At most one block is open at a time, so that blocks need no index:
whoever writes them to a client numbers them. `StreamFailed` may end a message anywhere instead.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming (read 2026-11-30).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from translator.core.errors import ClientError

__all__ = [
    "BlockStart",
    "BlockStop",
    "ContentBlock",
    "Event",
    "InputJsonDelta",
    "MessageDelta",
    "MessageStart",
    "MessageStop",
    "Ping",
    "SignatureDelta",
    "StopReason",
    "StreamFailed",
    "TextBlock",
    "TextDelta",
    "ThinkingBlock",
    "ThinkingDelta",
    "ToolUseBlock",
    "Usage",
    "UsageSource",
]


class StopReason(StrEnum):
    """Why a message ended."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_USE = "tool_use"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    CONTEXT_WINDOW_EXCEEDED = "model_context_window_exceeded"


class UsageSource(StrEnum):
    """Where the numbers of a `Usage` come from."""

    #: The upstream reported them, for the whole answer.
    UPSTREAM = "upstream"
    #: The upstream reported them, but the answer was cut before its last report, or one count is missing.
    PARTIAL = "partial"
    #: The upstream never said; counted from the text.
    ESTIMATED = "estimated"
    #: Nothing is known.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one message. The four counts of a message add up; none includes another."""

    #: Input tokens that no cache served.
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    #: Of the cache writes, those that the upstream keeps for an hour; they cost more than those kept for minutes.
    cache_write_1h_tokens: int = 0
    #: All output tokens, thinking included.
    output_tokens: int = 0
    #: Of the output tokens, those spent on thinking; None when the upstream does not say.
    thinking_tokens: int | None = None
    source: UsageSource = UsageSource.UNKNOWN
    #: What was odd in the report, as short codes.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """Visible text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlock:
    """Reasoning of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseBlock:
    """A call of one of the client's tools."""

    id: str
    name: str


type ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStart:
    """The upstream answers."""

    #: What is known of the input so far; None when nothing is.
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStart:
    """A content block opens."""

    block: ContentBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """More text for the open text block."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """More text for the open thinking block."""

    thinking: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureDelta:
    """The signature of the open thinking block; at most one, last in its block."""

    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputJsonDelta:
    """More of the JSON object that is the open tool call's input."""

    partial_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStop:
    """The open content block is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta:
    """Why the message ended, and what it cost."""

    stop_reason: StopReason
    #: The stop sequence that fired, with `StopReason.STOP_SEQUENCE`; else None.
    stop_sequence: str | None = None
    #: The Messages API's `stop_details`, with `StopReason.REFUSAL`; else None.
    stop_details: Mapping[str, Any] | None = None
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStop:
    """The message is complete; nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A sign of life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFailed:
    """The message cannot be completed; nothing follows."""

    error: ClientError


type Event = (
    MessageStart
    | BlockStart
    | TextDelta
    | ThinkingDelta
    | SignatureDelta
    | InputJsonDelta
    | BlockStop
    | MessageDelta
    | MessageStop
    | Ping
    | StreamFailed
)
