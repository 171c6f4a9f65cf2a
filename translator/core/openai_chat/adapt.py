"""What a refusal teaches: the keys that one upstream model does not take.

A profile cannot know every model. When an upstream refuses a request and its words name a key that was sent, the call
is tried once more without it, and the pair of upstream and model is spared the key from then on. Refusals for length
are no such lessons, though they name keys too. Of tools only what their schemas hold beyond the plain is left out; a
choice of tools that is refused is asked for in words.

Source: error texts of OpenAI, vLLM, NVIDIA NIM, DeepSeek, Groq, Mistral, Gemini, Kimi, Qwen, Zhipu, xAI, Cerebras,
Fireworks, Bedrock, llama.cpp and LM Studio, collected in November 2026.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from translator.core.openai_chat.body_changes import CHANGES, Change, changes
from translator.core.openai_chat.tools import asked_in_words

__all__ = ["Adaptation", "adapt", "is_refusal", "lesson"]

#: Statuses of refusals that may name a key: FastAPI servers say 422, OpenRouter 404.
REFUSED = (400, 404, 422)
#: What llama.cpp says with 500. All else of that status may be over at the second try, which would then teach nonsense.
REFUSED_WITH_500 = re.compile(r"grammar|json schema conversion|mmproj|unsupported param", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """One change to all bodies for an upstream model."""

    #: The top-level key that was refused.
    key: str
    #: The key to send the value under instead; None drops it.
    rename: str | None = None
    #: The largest value the upstream takes; None when the key itself is refused.
    at_most: int | None = None
    #: The only value the upstream takes beside tools, which it wants to be told.
    with_tools: str | None = None
    #: What else is done to the body, instead of dropping the key.
    change: Change | None = None

    @property
    def is_lasting(self) -> bool:
        """Whether it is about the upstream model, and not about one conversation: images may be taken one day."""
        return self.change not in ("unreasoned", "textual")


#: Words of refusals that are about a key and not about its value or the length of the input.
REFUSAL = re.compile(
    r"unsupported|not supported|n't support|not support|no longer support|unrecogni[sz]ed|unknown|unexpected"
    r"|extra inputs|extra_forbidden|not permitted|not allowed|additional propert|cannot find field"
    r"|requires --enable|cannot be used|can't be used|instead|incompatible|deprecated|cannot both|may not be enabled"
    r"|only [0-9.]+ is allowed|no endpoints found that support",
    re.IGNORECASE,
)
#: Words of refusals that are about a value; of a key whose values are the gateway's own.
BAD_VALUE = re.compile(r"invalid value|must be (?:one of|')|input should be|is unavailable", re.IGNORECASE)
OWN_WORDS = ("reasoning_effort", "tool_choice", "response_format")
LENGTH = re.compile(
    r"context (length|window|limit)|too long|too many tokens|exceeds? the (maximum|limit)", re.IGNORECASE
)

#: Limits of output tokens, as upstreams name the largest.
LIMIT_KEY = r"max(?:_completion|_output)?_tokens\b"
AT_MOST = re.compile(
    r"at most (\d+) (?:completion|output) tokens"
    r"|maximum tokens you requested exceeds the model limit of (\d+)"
    rf"|{LIMIT_KEY}: \d+ > (\d+), which is the maximum"
    rf"|{LIMIT_KEY}.{{0,80}}?(?:less than or equal to|<=|at most|no more than)\s*[`'\"]?(\d+)"
    rf"|{LIMIT_KEY}.{{0,40}}?between \d+ and (\d+)"
    rf"|{LIMIT_KEY}.{{0,60}}?[\[(]\s*\d+\s*,\s*(\d+)\s*[\])]",
    re.IGNORECASE | re.DOTALL,
)

LIMIT_KEYS = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": None,
}

#: What is said of schemas that an upstream can't make a grammar of, or doesn't understand.
SCHEMA = re.compile(r"schema|grammar|function_declarations|function_parameters|\.parameters\b", re.IGNORECASE)
#: What is said of images to a model that reads text only: one in the history would end the session.
IMAGES = re.compile(
    r"unknown variant `?image_url|(?:not|n't|found that) support (?:image(?:s\b| inputs?|_url)|multimodal|vision)"
    r"|images? (?:inputs? )?(?:is|are) not supported|image input modality is not enabled"
    r"|not a (?:multimodal|vision)|at most 0 image|mmproj|allowed values: \['text'\]",
    re.IGNORECASE,
)
#: What is said of Responses reasoning that another account has encrypted, or whose next item the client has left out.
REASONING = re.compile(
    r"encrypted content .{0,400}could not be|of type 'reasoning'|'rs_[^']{0,200}' not found",
    re.IGNORECASE | re.DOTALL,
)
SUMMARY = re.compile(r"reasoning[. ]summar", re.IGNORECASE)
#: What upstreams say that think, or answer at all, in streams only.
STREAM = re.compile(
    r"only supports? stream|stream must be (?:set to )?true|streaming is (?:required|strongly)"
    r"|false for non-streaming|can ?not be support\w* when `?stream=false",
    re.IGNORECASE,
)
#: Each change, the key it is about, and the words that ask for it.
CHANGED: tuple[tuple[Change, str, re.Pattern[str]], ...] = (
    ("textual", "messages", IMAGES),
    ("unreasoned", "input", REASONING),
    ("unsummarised", "reasoning", SUMMARY),
    ("streamed", "stream", STREAM),
)
#: What GPT-5.4 and later say where they are to reason about tools in this API.
NO_EFFORT = re.compile(r"set reasoning_effort to '(\w+)'")

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
    # xAI names keys as its own programs do, and OpenAI's servers by what they do.
    "reasoning_effort": re.compile(r"(?<!\w)(?:reasoning_effort|reasoningEffort)(?!\w)"),
    "parallel_tool_calls": re.compile(r"(?<!\w)parallel[_ ]tool[_ ]calls?(?!\w)", re.IGNORECASE),
    **{
        key: re.compile(rf"[\"'`]{key}[\"'`:.]|on this model: {key}(?!\w)")
        for key in ("thinking", "reasoning", "stop", "user")
    },
    "tool_choice": re.compile(r"(?<!\w)tool[_ -]choice(?!\w)"),
    "include": re.compile(r"Encrypted content is not supported|[\"'`]include[\"'`:.]"),
}


def is_refusal(status: int | None, text: str) -> bool:
    """Tell whether an error of this HTTP status is about the request, and so the same at each try."""
    return status in REFUSED or (status == 500 and REFUSED_WITH_500.search(text) is not None)


def lesson(refusal: str, body: Mapping[str, Any]) -> Adaptation | None:
    """Return what the text of a refusal teaches about `body`; None when trying again would be no use."""
    if limit := _limit_lesson(refusal, body):
        return limit
    if about_tools := _tools_lesson(refusal, body):
        return about_tools
    if LENGTH.search(refusal):
        return None
    for change, key, words in CHANGED:
        if words.search(refusal) and changes(change, body):
            return Adaptation(key=key, change=change)
    is_refused = bool(REFUSAL.search(refusal))
    for key, other in LIMIT_KEYS.items():
        if is_refused and key in body and re.search(rf"(?<!\w){key}(?!\w)", refusal):
            return Adaptation(key=key, rename=other)
    keys = DROPPABLE if is_refused else OWN_WORDS if BAD_VALUE.search(refusal) else ()
    return next((Adaptation(key=key) for key in keys if key in body and DROPPABLE[key].search(refusal)), None)


def _limit_lesson(refusal: str, body: Mapping[str, Any]) -> Adaptation | None:
    found = AT_MOST.search(refusal)
    key = next((key for key in LIMIT_KEYS if isinstance(body.get(key), int)), None)
    if not found or not key:
        return None
    at_most = int(next(filter(None, found.groups())))
    return Adaptation(key=key, at_most=at_most) if 0 < at_most < body[key] else None


def _tools_lesson(refusal: str, body: Mapping[str, Any]) -> Adaptation | None:
    if "tools" not in body:
        return None
    if (word := NO_EFFORT.search(refusal)) and body.get("reasoning_effort") != word.group(1):
        return Adaptation(key="reasoning_effort", with_tools=word.group(1))
    is_schema = SCHEMA.search(refusal) and not DROPPABLE["response_format"].search(refusal)
    return Adaptation(key="tools", change="plain") if is_schema and changes("plain", body) else None


def adapt(body: Mapping[str, Any], adaptations: Iterable[Adaptation]) -> dict[str, Any]:
    """Return the body with all that was learnt about its upstream model; the body given is not changed."""
    changed = dict(body)
    for adaptation in adaptations:
        if adaptation.change is not None:
            changed = CHANGES[adaptation.change](changed)
        elif adaptation.with_tools is not None:
            changed |= {adaptation.key: adaptation.with_tools} if "tools" in changed else {}
        elif adaptation.key in changed:
            _adapt_key(changed, adaptation)
    return changed


def _adapt_key(body: dict[str, Any], adaptation: Adaptation) -> None:
    value = body.pop(adaptation.key)
    if adaptation.at_most is not None:
        body[adaptation.key] = min(value, adaptation.at_most) if isinstance(value, int) else value
    elif adaptation.rename:
        body[adaptation.rename] = value
    elif adaptation.key == "tool_choice":
        body |= asked_in_words(body, value)
