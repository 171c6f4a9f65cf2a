"""Requests too long for the model: upstreams' many wordings, in the two that clients act on.

Claude Code compacts the conversation when it reads `prompt is too long`, and asks again with a smaller `max_tokens` when
it reads ``input length and `max_tokens` exceed context limit: I + O > C``.

Sources: https://code.claude.com/docs/en/errors (read 2026-11-30); the upstreams' messages as the tests show them.
"""

import re
from typing import Any

from translator.core.openai_chat.error_report import ErrorReport

__all__ = ["overflow_message"]

#: Codes and types that say it.
WORDS = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "string_too_long_for_context", "model_max_prompt_tokens_exceeded"})  # fmt: skip
#: Phrases that say it, lower case.
PHRASES = (
    "maximum context length",
    "model's context length",
    "context length exceeded",
    "exceeds the context length",
    "context size",
    "context window",
    "exceed context limit",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input token count",
    "maximum number of tokens allowed",
    "too many tokens",
    "input tokens exceed",
    "prompt token count",
    "maximum prompt length",
    "maximum input length",
    "range of input length should be",
    "model token limit",
    "more than max tokens allowed",
    "context length of only",
    "prompt exceeds max",
    "maximum model length",
    "max model len",
    "greater than the context length",
    "model context limit",
    "exceed max message tokens",
    "tokens. given: ",
    "reduce the length of the messages",
    "`inputs` tokens + `max_new_tokens`",
    "tokens per minute (tpm): limit",
)

NUMBER = r"([0-9]{1,9})\b"
#: Not "input length" alone, which other complaints say too.
EXCEEDED = re.compile(rf"input length {NUMBER} exceeds", re.IGNORECASE)
#: Between the thousands of a number.
COMMA = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
#: Where each number stands, best place first. No pattern repeats anything but digits.
LIMITS = [
    re.compile(pattern + NUMBER, re.IGNORECASE)
    for pattern in (
        r"maximum context length (?:is |of )?",
        r"maximum context length: ?",
        r"context length is only ",
        r"max(?:imum)? model len(?:gth)?(?: of)? ",
        r"context length \(",
        r"context size \(",
        r"context size of ",
        r"context window of ",
        r"context limit: [0-9]{1,9} \+ [0-9]{1,9} > ",
        r"tokens allowed \(",
        r"must be <= ",
        r"limit:? ",
        r"tokens > ",
        r"model with ",
        r"maximum (?:prompt|input) length (?:is )?",
        r"input length should be \[[0-9]{1,9}, ",
        r"model token limit: ",
        r"context length of only ",
        r"limit of ",
        r"must have less than ",
        r"exceeds the maximum length ",
        r"limit is ",
    )
]
INPUTS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        NUMBER + r" (?:tokens )?(?:in|from|of) (?:the|your) (?:messages|prompt|input)",
        NUMBER + r" input tokens",
        NUMBER + r" `inputs` tokens",
        r"input \(" + NUMBER,
        r"request \(" + NUMBER,
        r"input token count \(" + NUMBER,
        r"context limit: " + NUMBER,
        r"too long: " + NUMBER,
        r"contains " + NUMBER + " tokens",
        r"input length " + NUMBER,
        r"token count of " + NUMBER,
        r"\(requested: " + NUMBER,
        r"keep the first " + NUMBER,
        r"prompt \(length " + NUMBER,
        r"given: " + NUMBER,
        r"current length is " + NUMBER,
        r"requested " + NUMBER + r"(?!\S* ?(?:output|tokens))",
    )
]
OUTPUTS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        NUMBER + r" (?:tokens )?(?:in|for) the completion",
        NUMBER + r" (?:output tokens|in the output)",
        NUMBER + r" `max_new_tokens`",
        r"context limit: [0-9]{1,9} \+ " + NUMBER,
        r"is too large: " + NUMBER,
    )
]
TOTALS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"resulted in " + NUMBER,
        r"requested (?:a total of |about )?" + NUMBER + " tokens",
        r"total of (?:at least )?" + NUMBER,
    )
]


def overflow_message(report: ErrorReport) -> str | None:
    """Return the words that clients act on; None when the error is about something else."""
    text = report.text
    is_overflow = report.words & WORDS or any(phrase in text.lower() for phrase in PHRASES) or EXCEEDED.search(text)
    if not is_overflow:
        return None
    plain = COMMA.sub("", text)
    limit = _first(LIMITS, plain) or _field(report.body, "n_ctx")
    output = _first(OUTPUTS, plain)
    total = _first(TOTALS, plain)
    input_ = _first(INPUTS, plain) or _field(report.body, "n_prompt_tokens") or (total and total - (output or 0))
    if not limit or not input_:
        return text if "prompt is too long" in text.lower() else f"prompt is too long: {text}".removesuffix(": ")
    if output and input_ <= limit:
        return (
            f"input length and `max_tokens` exceed context limit: {input_} + {output} > {limit}, "
            "decrease input length or `max_tokens` and try again"
        )
    return f"prompt is too long: {input_} tokens > {limit} maximum"


def _first(patterns: list[re.Pattern[str]], text: str) -> int | None:
    found = (pattern.search(text) for pattern in patterns)
    return next((int(match.group(1)) for match in found if match), None)


def _field(body: dict[str, Any] | None, key: str) -> int | None:
    value = (body or {}).get(key)
    return value if isinstance(value, int) else None
