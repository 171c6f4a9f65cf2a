"""Profiles: how upstreams of one dialect differ, as data.

A profile is a set of switches. The translation reads switches and never the name of an upstream, so an
upstream nobody has met is a row of overrides and not a branch. This table is the whole knowledge of named
upstreams; `docs/profiles.md` is drawn from it.

Sources: the upstreams' own documentation and error messages, read in November 2026.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from translator.core.switches import NOTHING, Profile, ProfileError, checked_switches

__all__ = ["PROFILES", "Profile", "ProfileError", "profile_named"]

#: OpenAI's reasoning models refuse the old key and sampling, under whatever upstream serves them.
OPENAI_REASONING: Mapping[str, Any] = {
    "max_tokens_key": "max_completion_tokens",
    "sampling": False,
    "reasoning_assumed": True,
}
OPENAI_MODELS: Mapping[str, Mapping[str, Any]] = {
    "gpt-5": OPENAI_REASONING,
    "o1": OPENAI_REASONING,
    "o3": {**OPENAI_REASONING, "stop_max": 0},
    "o4": {**OPENAI_REASONING, "stop_max": 0},
}

#: Schema keywords that Gemini's compatible endpoint answers with `Unknown name`.
GEMINI_UNKNOWN = (
    "$schema",
    "$id",
    "$comment",
    "additionalProperties",
    "const",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "patternProperties",
    "propertyNames",
)

#: Schema keywords that llama.cpp can't make a grammar of in all places: then it refuses the whole request.
LLAMA_CPP_UNGRAMMATICAL = ("$schema", "pattern", "format", "minLength", "maxLength")

#: Gemini refuses a call of the history without its signature; this word of Google's stands for one.
GEMINI_UNSIGNED: Mapping[str, Any] = {
    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
}

PROFILES: Mapping[str, Profile] = {
    "plain": Profile(by_model=OPENAI_MODELS),
    "openai": Profile(
        reasoning_request="effort",
        tool_choice_auto="send",
        pdf=True,
        system_mid="inline",
        tool_id_style="max40",
        prompt_cache_key=True,
        by_model=OPENAI_MODELS,
    ),
    "nvidia_nim": Profile(
        top_k=True,
        reasoning_in="reasoning_content",
        reasoning_request="template_kwargs",
        by_model={
            "deepseek-v4": {"reasoning_request": "effort", "reasoning_assumed": True, "effort_off": "none"},
            "gpt-oss": {"reasoning_request": "effort", "reasoning_assumed": True},
        },
    ),
    "vllm": Profile(
        top_k=True,
        stop_max=None,
        reasoning_in="reasoning",
        reasoning_request="template_kwargs",
        schema_top_unions=True,
        prefill="continue",
        by_model={"gpt-oss": {"reasoning_request": "effort", "reasoning_assumed": True}},
    ),
    "sglang": Profile(
        top_k=True,
        stop_max=None,
        reasoning_in="reasoning_content",
        reasoning_request="template_kwargs",
        schema_top_unions=True,
    ),
    "ollama": Profile(
        reasoning_in="reasoning",
        reasoning_request="effort",
        effort_off="none",
        stop_max=None,
        tool_choice_any="ask",
        tool_choice_tool="ask",
        tool_choice_none="drop_tools",
        parallel_tool_calls=False,
        image_urls=False,
    ),
    "llama_cpp": Profile(
        top_k=True,
        stop_max=None,
        reasoning_in="reasoning_content",
        reasoning_request="template_kwargs",
        schema_drop=LLAMA_CPP_UNGRAMMATICAL,
        image_urls=False,
    ),
    "deepseek": Profile(
        stop_max=16,
        reasoning_in="reasoning_content",
        reasoning_in_empty=True,
        reasoning_request="thinking",
        reasoning_assumed=True,
        efforts={"low": "low", "medium": "high", "high": "high", "xhigh": "high", "max": "max"},
        parallel_tool_calls=False,
        vision=False,
        image_urls=False,
        response_format="json_object",
    ),
    "openrouter": Profile(
        top_k=True,
        reasoning_in="reasoning_details",
        reasoning_request="openrouter",
        reasoning_assumed=True,
        pdf=True,
    ),
    "groq": Profile(
        max_tokens_key="max_completion_tokens",
        reasoning_in="reasoning",
        reasoning_request="effort",
        by_model={"qwen": {"efforts": {}, "effort_off": "none"}},
    ),
    "mistral": Profile(
        stream_usage=False,
        stop_max=None,
        reasoning_request="effort",
        tool_choice_any="any",
        user_after_tool="merge",
        tool_id_style="mistral9",
        prefill="prefix",
        content_null="empty",
    ),
    "gemini": Profile(
        stop_max=5,
        reasoning_request="effort",
        effort_off="none",
        parallel_tool_calls=False,
        schema_drop=GEMINI_UNKNOWN,
        schema_inline_refs=True,
        tool_call_extra=GEMINI_UNSIGNED,
        image_urls=False,
    ),
    "together": Profile(
        top_k=True,
        reasoning_in="reasoning",
        reasoning_request="effort",
    ),
}


def profile_named(name: str, overrides: Mapping[str, Any] = NOTHING) -> Profile:
    """Return a named profile with the switches of a JSON object laid over it.

    Raises:
        ProfileError: The name or a switch is unknown, or a value has the wrong type.
    """
    if name not in PROFILES:
        message = f"unknown profile {name!r}; there are {', '.join(PROFILES)}"
        raise ProfileError(message)
    return replace(PROFILES[name], **checked_switches(overrides))
