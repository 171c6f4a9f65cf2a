"""What a refusal teaches: the keys that one upstream model does not take.

A profile cannot know every model. When an upstream answers 400 and its words name a key that was sent, the call is
tried once more without it, and the pair of upstream and model is spared the key from then on. Refusals for length are no
such lessons, though they name keys too.

Source: error texts of OpenAI, vLLM, NVIDIA NIM, DeepSeek, Groq, Mistral and Gemini, collected in November 2026.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Adaptation", "adapt", "lesson"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """One change to all bodies for an upstream model."""

    #: The top-level key that was refused.
    key: str
    #: The key to send the value under instead; None drops it.
    rename: str | None = None
    #: The largest value the upstream takes; None when the key itself is refused.
    at_most: int | None = None


#: Words of refusals that are about a key and not about its value or the length of the input.
REFUSAL = re.compile(
    r"unsupported|not supported|n't support|not support|no longer support|unrecogni[sz]ed|unknown|unexpected"
    r"|extra inputs|extra_forbidden|not permitted|not allowed|additional propert|cannot find field"
    r"|requires --enable|cannot be used|can't be used|instead",
    re.IGNORECASE,
)
LENGTH = re.compile(
    r"context (length|window|limit)|too long|too many tokens|exceeds? the (maximum|limit)", re.IGNORECASE
)

#: Limits of output tokens, as upstreams name the largest.
AT_MOST = re.compile(
    r"at most (\d+) (?:completion|output) tokens"
    r"|max(?:_completion)?_tokens\b.{0,80}?(?:less than or equal to|<=|at most|no more than)\s*[`'\"]?(\d+)"
    r"|max(?:_completion)?_tokens\b.{0,60}?[\[(]\s*\d+\s*,\s*(\d+)\s*[\])]",
    re.IGNORECASE | re.DOTALL,
)

LIMIT_KEYS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

#: Keys that may be dropped, and how a refusal names them; common words count in quotes only.
DROPPABLE: Mapping[str, re.Pattern[str]] = {
    **{
        key: re.compile(rf"(?<!\w){key}(?!\w)")
        for key in (
            "stream_options",
            "parallel_tool_calls",
            "reasoning_effort",
            "chat_template_kwargs",
            "response_format",
            "continue_final_message",
            "add_generation_prompt",
            "prompt_cache_key",
            "safety_identifier",
            "service_tier",
            "temperature",
            "top_p",
            "top_k",
        )
    },
    **{key: re.compile(rf"[\"'`]{key}[\"'`]") for key in ("thinking", "reasoning", "stop", "user")},
    "tool_choice": re.compile(r"(?<!\w)tool[_ -]choice(?!\w)"),
}


def lesson(refusal: str, body: Mapping[str, Any]) -> Adaptation | None:
    """Return what the text of a 400 teaches about `body`; None when trying again would be no use."""
    if limit := _limit_lesson(refusal, body):
        return limit
    if LENGTH.search(refusal) or not REFUSAL.search(refusal):
        return None
    for key, other in LIMIT_KEYS.items():
        if key in body and re.search(rf"(?<!\w){key}(?!\w)", refusal):
            return Adaptation(key=key, rename=other)
    return next(
        (Adaptation(key=key) for key, named in DROPPABLE.items() if key in body and named.search(refusal)), None
    )


def _limit_lesson(refusal: str, body: Mapping[str, Any]) -> Adaptation | None:
    found = AT_MOST.search(refusal)
    key = next((key for key in LIMIT_KEYS if isinstance(body.get(key), int)), None)
    if not found or not key:
        return None
    at_most = int(next(filter(None, found.groups())))
    return Adaptation(key=key, at_most=at_most) if 0 < at_most < body[key] else None


def adapt(body: Mapping[str, Any], adaptations: Iterable[Adaptation]) -> dict[str, Any]:
    """Return the body with all that was learnt about its upstream model; the body given is not changed."""
    changed = dict(body)
    for adaptation in adaptations:
        if adaptation.key not in changed:
            continue
        value = changed.pop(adaptation.key)
        if adaptation.at_most is not None:
            changed[adaptation.key] = min(value, adaptation.at_most) if isinstance(value, int) else value
        elif adaptation.rename:
            changed[adaptation.rename] = value
    return changed
