"""Why an answer ended: from the upstream's word and from what was sent.

The upstream's word alone is not to be trusted: OpenAI says `stop` after a forced tool call, Gemini after any,
and vLLM has said `tool_calls` where there was none. Agents go on while they read `tool_use`.

Source: https://platform.openai.com/docs/api-reference/chat/object (read 2026-11-30), and the own words of DeepSeek, Gemini,
Mistral, Zhipu, Bedrock, vLLM and SGLang.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from translator.core.events import StopReason

__all__ = ["Finish", "decide_stop", "finish_named", "refusal_details"]


class Finish(Enum):
    """What an upstream's `finish_reason` comes to."""

    STOPPED = "the model stopped, or a stop sequence did"
    CUT = "out of tokens"
    REFUSED = "kept back by a filter"
    OVERLOADED = "given up for lack of capacity"
    FAILED = "an error"
    OTHER = "tool calls, or a word unknown here"


FINISHES: Mapping[str, Finish] = {
    "stop": Finish.STOPPED,
    "eos": Finish.STOPPED,
    "end_turn": Finish.STOPPED,
    "stop_sequence": Finish.STOPPED,
    "length": Finish.CUT,
    "max_tokens": Finish.CUT,
    "max_output_tokens": Finish.CUT,
    "model_length": Finish.CUT,
    "model_context_window_exceeded": Finish.CUT,
    "content_filter": Finish.REFUSED,
    "content_filtered": Finish.REFUSED,
    "guardrail_intervened": Finish.REFUSED,
    "sensitive": Finish.REFUSED,
    "safety": Finish.REFUSED,
    "image_safety": Finish.REFUSED,
    "prohibited_content": Finish.REFUSED,
    "blocklist": Finish.REFUSED,
    "spii": Finish.REFUSED,
    "recitation": Finish.REFUSED,
    "refusal": Finish.REFUSED,
    "insufficient_system_resource": Finish.OVERLOADED,
    "error": Finish.FAILED,
    "network_error": Finish.FAILED,
    "abort": Finish.FAILED,
    "malformed_function_call": Finish.FAILED,
    "function_call_filter": Finish.FAILED,
}


def finish_named(word: str) -> Finish:
    """Return what an upstream's `finish_reason` comes to; Gemini adds a reason (`content_filter: RECITATION`)."""
    return FINISHES.get(word.lower().partition(":")[0], Finish.OTHER)


def decide_stop(
    finish: Finish | None, *, has_calls: bool, is_refusal: bool, fired: str | None, is_cut_here: bool
) -> StopReason:
    """Return the stop reason; the first rule that holds wins.

    Args:
        finish: The upstream's word, or None when it gave none.
        has_calls: Whether a tool call was sent.
        is_refusal: Whether all there is to read is a refusal.
        fired: The stop sequence that is known to have fired, or None.
        is_cut_here: Whether it was this gateway that found it, and so knows better than the upstream.
    """
    if is_cut_here and not has_calls:
        return StopReason.STOP_SEQUENCE
    if finish is Finish.CUT:
        return StopReason.MAX_TOKENS
    if finish is Finish.REFUSED or is_refusal:
        return StopReason.REFUSAL
    if has_calls:
        return StopReason.TOOL_USE
    if fired is not None and finish in (Finish.STOPPED, None):
        return StopReason.STOP_SEQUENCE
    return StopReason.END_TURN


def refusal_details(explanation: str | None) -> dict[str, Any]:
    """Return the `stop_details` of a refusal."""
    return {"type": "refusal", "category": None, "explanation": explanation}
