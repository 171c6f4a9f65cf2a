"""Thinking: asking for it, and sending back what earlier turns thought.

Upstreams differ in both; the profile says how. State that an upstream wants back travels to the client and home
again inside the signature of a thinking block: `gw1.` and base64url of a JSON object. Other signatures are
another upstream's and mean nothing here. Thinking never becomes visible text.

Source: the upstreams' pages on reasoning (vLLM, DeepSeek, OpenRouter, Ollama; read 2026-11-30).
"""

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import orjson

from translator.core.anthropic.request import Thinking, ThinkingMode
from translator.core.facts import ModelFacts
from translator.core.openai_chat.reasoning import SIGNATURE_PREFIX
from translator.core.switches import Profile

__all__ = ["reasoning_keys", "replayed_thinking", "signed_state"]

#: Largest budget of each effort, for upstreams that know words only.
BUDGETS = ((4096, "low"), (16384, "medium"))


def reasoning_keys(
    thinking: Thinking, *, profile: Profile, model: ModelFacts, is_forced: bool = False
) -> dict[str, Any]:
    """Return the top-level keys that ask for thinking as the client wants it; none for models that do not reason.

    Args:
        thinking: The client's wishes.
        profile: How the upstream is asked.
        model: The upstream model.
        is_forced: Whether a call is forced: upstreams with a switch for thinking have it on, and then refuse that.
    """
    if not (profile.reasoning_assumed if model.reasoning is None else model.reasoning):
        return {}
    match profile.reasoning_request:
        case "none":
            return {}
        case "effort":
            return _effort_keys(thinking, profile)
        case "thinking" if is_forced:
            return {"thinking": {"type": "disabled"}}
        case "thinking":
            return _switch_keys(thinking) | _effort_keys(thinking, profile)
        case "openrouter":
            return _openrouter_keys(thinking, profile)
        case "template_kwargs":
            return _template_keys(thinking, profile) | _effort_keys(thinking, profile)
        case _:
            assert_never(profile.reasoning_request)


def _effort_keys(thinking: Thinking, profile: Profile) -> dict[str, Any]:
    if thinking.mode is ThinkingMode.OFF:
        return {"reasoning_effort": profile.effort_off} if profile.effort_off else {}
    word = _effort_word(thinking, profile)
    return {"reasoning_effort": word} if word else {}


def _effort_word(thinking: Thinking, profile: Profile) -> str | None:
    effort = thinking.effort
    if effort is None and thinking.mode is ThinkingMode.ENABLED and thinking.budget is not None:
        effort = next((word for limit, word in BUDGETS if thinking.budget <= limit), "high")
    return profile.efforts.get(effort) if effort else None


def _switch_keys(thinking: Thinking) -> dict[str, Any]:
    if thinking.mode is ThinkingMode.UNSET:
        return {}
    return {"thinking": {"type": "enabled" if thinking.is_on else "disabled"}}


def _openrouter_keys(thinking: Thinking, profile: Profile) -> dict[str, Any]:
    """One of effort and budget, never both: OpenRouter refuses that."""
    if thinking.mode is ThinkingMode.OFF:
        return {"reasoning": {"enabled": False}}
    if thinking.effort and thinking.effort in profile.efforts:
        return {"reasoning": {"effort": profile.efforts[thinking.effort]}}
    if thinking.mode is ThinkingMode.ENABLED and thinking.budget is not None:
        return {"reasoning": {"max_tokens": thinking.budget}}
    return {"reasoning": {"enabled": True}} if thinking.is_on else {}


def _template_keys(thinking: Thinking, profile: Profile) -> dict[str, Any]:
    if thinking.mode is ThinkingMode.UNSET or not profile.template_kwargs:
        return {}
    return {"chat_template_kwargs": dict.fromkeys(profile.template_kwargs, thinking.is_on)}


def replayed_thinking(
    blocks: Iterable[Mapping[str, Any]], *, profile: Profile, has_calls: bool, is_off: bool
) -> dict[str, Any]:
    """Return the keys that carry an earlier turn's thinking back to the upstream.

    Args:
        blocks: The turn's `thinking` blocks.
        profile: How the upstream wants them.
        has_calls: Whether the turn calls tools: some upstreams need the key there even without thinking.
        is_off: Whether this request switches thinking off.
    """
    if profile.reasoning_in == "none":
        return {}
    known = [(block, signed_state(block.get("signature") or "") or {}) for block in blocks]
    text = "".join(block.get("thinking") or _hidden_text(state) for block, state in known)
    if profile.reasoning_in in ("reasoning_details", "reasoning_items"):
        kept = [detail for _, state in known for detail in _kept(state, profile.reasoning_in)]
        return {profile.reasoning_in: kept} if kept else _as_text(text, profile)
    if text or (profile.reasoning_in_empty and has_calls and not is_off):
        return {profile.reasoning_in: text}
    return {}


def _hidden_text(state: Mapping[str, Any]) -> str:
    """The thinking that the client asked not to see."""
    text = state.get("thinking")
    return text if isinstance(text, str) else ""


def _kept(state: Mapping[str, Any], key: str) -> list[Any]:
    """What an upstream gave to be handed back unchanged."""
    kept = state.get(key)
    return kept if isinstance(kept, list) else []


def _as_text(text: str, profile: Profile) -> dict[str, Any]:
    return {"reasoning": text} if text and profile.reasoning_in == "reasoning_details" else {}


def signed_state(signature: str) -> dict[str, Any] | None:
    """Return the state that a signature of ours carries; None when it is not ours or is broken."""
    if not signature.startswith(SIGNATURE_PREFIX):
        return None
    packed = signature.removeprefix(SIGNATURE_PREFIX)
    try:
        state = orjson.loads(urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    except (Base64Error, ValueError):
        return None
    return state if isinstance(state, dict) else None
