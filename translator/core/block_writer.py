"""Deltas of several kinds, as upstreams mix them, to blocks that open and close in order."""

from collections.abc import Callable

from translator.core.events import (
    BlockStart,
    BlockStop,
    ContentBlock,
    Event,
    InputJsonDelta,
    SignatureDelta,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)

__all__ = ["BlockWriter"]


class BlockWriter:
    """Turn deltas into events: open a block when its kind first comes, close the one before.

    White space that would open a block is held until more of its kind comes, and dropped when another kind does:
    models send line breaks between thinking, text and tool calls, and blocks of nothing else are refused later.
    """

    def __init__(self, *, sign: Callable[[], str], omit_thinking_text: bool) -> None:
        """Start with no block.

        Args:
            sign: Gives the signature of the thinking block that closes.
            omit_thinking_text: Whether thinking blocks carry their signature only.
        """
        #: Where events are written; a caller may set its own list.
        self.events: list[Event] = []
        #: Whether anything was written that a client would show or run.
        self.has_output = False
        self._sign = sign
        self._omit_thinking_text = omit_thinking_text
        self._open: type[ContentBlock] | None = None
        self._held_text = ""
        self._held_thinking = ""

    @property
    def is_thinking(self) -> bool:
        """Whether a thinking block is open."""
        return self._open is ThinkingBlock

    def text(self, text: str) -> None:
        """Write text, which is not empty."""
        if self._open is not TextBlock:
            text = self._held_text + text
            if text.isspace():
                self._held_text = text
                return
            self._start(TextBlock())
        self.events.append(TextDelta(text=text))

    def thinking(self, thinking: str) -> None:
        """Write thinking, which is not empty."""
        if self._open is not ThinkingBlock:
            thinking = self._held_thinking + thinking
            if thinking.isspace():
                self._held_thinking = thinking
                return
            self.open_thinking()
        if not self._omit_thinking_text:
            self.events.append(ThinkingDelta(thinking=thinking))

    def open_thinking(self) -> None:
        """Open a thinking block that may stay without text: its signature carries what the upstream wants back."""
        if self._open is not ThinkingBlock:
            self._start(ThinkingBlock())

    def open_tool_use(self, *, id: str, name: str) -> None:  # noqa: A002  # the wire's own word
        """Open a tool call."""
        self._start(ToolUseBlock(id=id, name=name))

    def input_json(self, partial_json: str) -> None:
        """Write more of the input of the open tool call."""
        self.events.append(InputJsonDelta(partial_json=partial_json))

    def close(self) -> None:
        """Close the open block, if there is one."""
        if self._open is ThinkingBlock:
            self.events.append(SignatureDelta(signature=self._sign()))
        if self._open is not None:
            self.events.append(BlockStop())
            self._open = None

    def _start(self, block: ContentBlock) -> None:
        self.close()
        self._open = type(block)
        self._held_text = self._held_thinking = ""
        self.has_output = True
        self.events.append(BlockStart(block=block))
