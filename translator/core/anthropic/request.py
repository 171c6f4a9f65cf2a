"""Requests of the Messages API: bytes in, a `MessagesRequest` out.

Fields that are not known stay in `body` and are otherwise ignored; so are API versions and betas, as each client
sends its own. Of the fields that are known, the translation reads what it needs from the plain tree.

Source: https://platform.claude.com/docs/en/api/messages (read 2026-11-30).
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from translator.core.anthropic.checks import check_request
from translator.core.strict_json import JsonLimits, load_object

__all__ = ["MessagesRequest", "Thinking", "ThinkingMode", "parse_request"]

DEFAULT_LIMITS = JsonLimits()

#: Claude Code's first system block: a line of accounting that changes with every prompt.
ATTRIBUTION = "x-anthropic-billing-header"

#: `user_<hash>_account__session_<uuid>`, as Claude Code 1.0 to 2.0 packs it.
SESSION_IN_USER_ID = re.compile(r"_session_([A-Za-z0-9-]{1,64})$")


class ThinkingMode(Enum):
    """What the client says of thinking."""

    UNSET = "unset"
    OFF = "off"
    ENABLED = "enabled"
    ADAPTIVE = "adaptive"


MODES = {
    "enabled": ThinkingMode.ENABLED,
    "adaptive": ThinkingMode.ADAPTIVE,
    "disabled": ThinkingMode.OFF,
    "between_tools": ThinkingMode.OFF,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """The client's wishes about thinking, from `thinking` and `output_config`."""

    mode: ThinkingMode = ThinkingMode.UNSET
    #: Tokens to think with; None when the client names none.
    budget: int | None = None
    #: The last effort asked for; None when none was.
    effort: str | None = None
    #: Whether the client wants thinking blocks without their text.
    omit_text: bool = False

    @property
    def is_on(self) -> bool:
        """Whether the client asked for thinking."""
        return self.mode in (ThinkingMode.ENABLED, ThinkingMode.ADAPTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesRequest:
    """A valid request; `body` is the plain tree, which nobody changes."""

    body: dict[str, Any]
    model: str
    #: None only for `count_tokens`; 0 asks to warm a cache and is answered without an upstream.
    max_tokens: int | None
    stream: bool
    #: Texts of the system prompt, without Claude Code's line of accounting.
    system: tuple[str, ...]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    tool_choice: dict[str, Any] | None
    thinking: Thinking
    stop_sequences: tuple[str, ...]
    #: JSON schema that the answer must match; None when any text will do.
    output_schema: dict[str, Any] | None
    user_id: str | None
    #: The client's session, when `metadata.user_id` holds one.
    session_id: str | None
    #: Whether U+0000 occurs somewhere; some upstreams choke on it.
    has_nul: bool


def parse_request(raw: bytes, *, limits: JsonLimits = DEFAULT_LIMITS, for_counting: bool = False) -> MessagesRequest:
    """Return the request that `raw` holds.

    Args:
        raw: The body of the call.
        limits: How large the tree may be.
        for_counting: Read it for `count_tokens`, which needs no `max_tokens`.

    Raises:
        InvalidRequest: What is wrong, and where.
    """
    body = load_object(raw, limits)
    check_request(body, for_counting=for_counting)
    max_tokens = body.get("max_tokens")
    user_id = (body.get("metadata") or {}).get("user_id")
    return MessagesRequest(
        body=body,
        model=body["model"],
        max_tokens=None if max_tokens is None else int(max_tokens),
        stream=bool(body.get("stream")),
        system=system_texts(body.get("system")),
        messages=body["messages"],
        tools=body.get("tools") or [],
        tool_choice=body.get("tool_choice"),
        thinking=_thinking(body),
        stop_sequences=tuple(text for text in body.get("stop_sequences") or () if text.strip()),
        output_schema=_output_schema(body),
        user_id=user_id,
        session_id=_session_id(user_id),
        has_nul=b"\\u0000" in raw,
    )


def system_texts(content: str | list[dict[str, Any]] | None) -> tuple[str, ...]:
    """Return the texts of a system prompt that are worth sending."""
    blocks = [content] if isinstance(content, str) else [b["text"] for b in content or () if b["type"] == "text"]
    texts = [text.partition("\n")[2].lstrip("\n") if text.startswith(ATTRIBUTION) else text for text in blocks]
    return tuple(text for text in texts if text.strip())


def _thinking(body: dict[str, Any]) -> Thinking:
    asked = body.get("thinking") or {}
    budget = asked.get("budget_tokens")
    return Thinking(
        mode=MODES.get(asked.get("type", ""), ThinkingMode.UNSET),
        budget=None if budget is None else int(budget),
        effort=_effort(body),
        omit_text=asked.get("display") == "omitted",
    )


def _effort(body: dict[str, Any]) -> str | None:
    """The effort of the last message that sets one, else that of the request."""
    configs = [message.get("output_config") for message in reversed(body["messages"])]
    efforts = [config.get("effort") for config in (*configs, body.get("output_config")) if config]
    return next((effort for effort in efforts if isinstance(effort, str)), None)


def _output_schema(body: dict[str, Any]) -> dict[str, Any] | None:
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    return wanted.get("schema") if wanted.get("type") == "json_schema" else None


def _session_id(user_id: str | None) -> str | None:
    if not user_id:
        return None
    if found := SESSION_IN_USER_ID.search(user_id):
        return found[1]
    try:
        packed = orjson.loads(user_id)
    except orjson.JSONDecodeError:
        return None
    session = packed.get("session_id") if isinstance(packed, dict) else None
    return session if isinstance(session, str) and session else None
