"""The conversation in turns: what the client's messages say, before they are put in the upstream's order.

Turns alternate between the assistant and everybody else, whatever the client sent: neighbours of one kind are
joined and empty ones left out. System messages amid the conversation go where the profile says.

Source: https://platform.claude.com/docs/en/api/messages (roles and order of blocks, read 2026-11-30).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from translator.core.anthropic.request import system_texts
from translator.core.openai_chat.blocks import Part, Reader, joined_text, server_result_texts, text_part

__all__ = ["AssistantTurn", "Conversation", "Result", "UserTurn", "read_conversation"]


@dataclass(slots=True, kw_only=True)
class Result:
    """The answer to one tool call."""

    tool_use_id: str
    parts: list[Part]
    is_error: bool


@dataclass(slots=True)
class AssistantTurn:
    """What the model said in one go."""

    texts: list[str] = field(default_factory=list)
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    thinking: list[Mapping[str, Any]] = field(default_factory=list)

    def is_empty(self) -> bool:
        """Whether nothing is left that an upstream would take; thinking alone is nothing."""
        return not self.texts and not self.calls

    def add(self, other: "AssistantTurn") -> None:
        """Join a turn that follows this one directly."""
        self.texts += other.texts
        self.calls += other.calls
        self.thinking += other.thinking


@dataclass(slots=True)
class UserTurn:
    """What came between two assistant turns."""

    results: list[Result] = field(default_factory=list)
    #: Parts of user messages, and of system messages that stay in their place.
    said: list[tuple[Literal["user", "system"], list[Part]]] = field(default_factory=list)

    def is_empty(self) -> bool:
        """Whether nothing is left to send."""
        return not self.results and not self.said

    def say(self, role: Literal["user", "system"], parts: list[Part]) -> None:
        """Add parts in order, to the last message if it is of the same role."""
        if parts and self.said and self.said[-1][0] == role:
            self.said[-1][1].extend(parts)
        elif parts:
            self.said.append((role, list(parts)))

    def add(self, other: "UserTurn") -> None:
        """Join a turn that follows this one directly."""
        self.results += other.results
        for role, parts in other.said:
            self.say(role, parts)


@dataclass(slots=True)
class Conversation:
    """The turns, and the system texts that belong before them."""

    turns: list[AssistantTurn | UserTurn] = field(default_factory=list)
    hoisted: list[str] = field(default_factory=list)

    def add(self, turn: AssistantTurn | UserTurn) -> None:
        """Add a turn in order; an empty one vanishes, a second one of a kind joins the first."""
        if turn.is_empty():
            return
        match turn, self.turns[-1] if self.turns else None:
            case (AssistantTurn(), AssistantTurn() as last):
                last.add(turn)
            case (UserTurn(), UserTurn() as last):
                last.add(turn)
            case _:
                self.turns.append(turn)


def read_conversation(
    messages: list[dict[str, Any]], *, reader: Reader, system_mid: Literal["user", "inline", "hoist"]
) -> Conversation:
    """Return the turns of a request's messages.

    Args:
        messages: The messages, as validated.
        reader: Reads their blocks.
        system_mid: Where system messages amid the conversation go.
    """
    conversation = Conversation()
    last_user = max((index for index, message in enumerate(messages) if message["role"] == "user"), default=-1)
    for index, message in enumerate(messages):
        path = f"messages.{index}.content"
        match message["role"]:
            case "assistant":
                conversation.add(_assistant_turn(message["content"], path, reader))
            case "user":
                conversation.add(_user_turn(message["content"], path, reader))
            case _ if message.get("clear_at") == "next_user_message" and index < last_user:
                pass
            case _:
                _add_system(conversation, system_texts(message.get("content")), system_mid)
    return conversation


def _add_system(conversation: Conversation, texts: tuple[str, ...], system_mid: str) -> None:
    """Before the first turn a system message is part of the system prompt, whatever the profile says."""
    if system_mid == "hoist" or not conversation.turns:
        conversation.hoisted += texts
        return
    turn = UserTurn()
    if texts and system_mid == "inline":
        turn.say("system", [text_part("\n\n".join(texts))])
    elif texts:
        text = "\n\n".join(texts)
        turn.say("user", [text_part(f"<system-reminder>\n{text}\n</system-reminder>")])
    conversation.add(turn)


def _assistant_turn(content: str | list[dict[str, Any]], path: str, reader: Reader) -> AssistantTurn:
    turn = AssistantTurn()
    for index, block in enumerate([text_part(content)] if isinstance(content, str) else content):
        match block["type"]:
            case "tool_use":
                turn.calls.append(block)
            case "thinking":
                turn.thinking.append(block)
            case "server_tool_use" | "mcp_tool_use":
                pass
            case "tool_result":
                parts = reader.parts(block.get("content"), f"{path}.{index}.content")
                turn.texts.append(f"Tool result: {joined_text(parts)}")
            case kind if kind.endswith("_tool_result"):
                turn.texts += server_result_texts(block)
            case _:
                turn.texts += [part["text"] for part in reader.block(block, f"{path}.{index}") if "text" in part]
    return turn


def _user_turn(content: str | list[dict[str, Any]], path: str, reader: Reader) -> UserTurn:
    turn = UserTurn()
    if isinstance(content, str):
        turn.say("user", reader.parts(content, path))
        return turn
    for index, block in enumerate(content):
        if block["type"] == "tool_result":
            turn.results.append(_result(block, f"{path}.{index}.content", reader))
        else:
            turn.say("user", list(reader.block(block, f"{path}.{index}")))
    return turn


def _result(block: Mapping[str, Any], path: str, reader: Reader) -> Result:
    return Result(
        tool_use_id=block["tool_use_id"],
        parts=reader.parts(block.get("content"), path),
        is_error=block.get("is_error") is True,
    )
