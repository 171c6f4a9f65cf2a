"""What a decoder must know of the request whose answer it reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AnswerContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """The request, as far as its answer depends on it."""

    #: The model the client asked for, which is the one it is told.
    model: str
    #: Names of the tools offered to the upstream, as the upstream knows them.
    tools: frozenset[str] = frozenset()
    #: Upstream's tool name to the client's, only where they differ.
    tool_names: Mapping[str, str] = field(default_factory=dict)
    #: The tool the request forces (upstream's name), or None.
    forced_tool: str | None = None
    stop_sequences: tuple[str, ...] = ()
    #: The limit that the upstream was given, or None.
    max_tokens: int | None = None
    #: Output tokens that the client allows and the model's window holds, whatever the upstream grants in one call; or None.
    message_limit: int | None = None
    #: How often the upstream may be asked to go on with an answer that it cut short.
    continue_rounds: int = 0
    #: Whether the client asked to see thinking.
    show_thinking: bool = False
    #: Whether thinking blocks carry their signature only (`display: omitted`).
    omit_thinking_text: bool = False
    #: Whether more than one tool call may come back.
    parallel_tools: bool = True
    #: Input tokens, estimated, for upstreams that do not count.
    input_estimate: int = 0
    #: Ids of tool calls in the history: a new call must have another.
    history_tool_ids: frozenset[str] = frozenset()
    #: Schemas of the tools that the model calls through its text, by name; empty where it calls them itself.
    emulated_tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Whether the client wants a call, and nothing else will do; known only for emulated tools.
    must_call: bool = False
