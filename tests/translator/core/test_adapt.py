from typing import Any

import pytest

from translator.core.openai_chat.adapt import Adaptation, adapt, lesson

BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 32000,
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 1,
    "top_k": 5,
    "stop": ["x"],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning_effort": "high",
    "thinking": {"type": "enabled"},
    "response_format": {"type": "json_object"},
    "messages": [],
}

LESSONS: list[tuple[str, Adaptation]] = [
    (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        Adaptation(key="max_tokens", rename="max_completion_tokens"),
    ),
    ("Unrecognized request argument supplied: stream_options", Adaptation(key="stream_options")),
    (
        "[{'type': 'extra_forbidden', 'loc': ('body', 'top_k'), 'msg': 'Extra inputs are not permitted'}]",
        Adaptation(key="top_k"),
    ),
    ("Unknown parameter: 'thinking'.", Adaptation(key="thinking")),
    ("property 'parallel_tool_calls' is unsupported", Adaptation(key="parallel_tool_calls")),
    (
        'Invalid JSON payload received. Unknown name "reasoning_effort": Cannot find field.',
        Adaptation(key="reasoning_effort"),
    ),
    (
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        Adaptation(key="tool_choice"),
    ),
    ("Unsupported value: 'temperature' does not support 0 with this model.", Adaptation(key="temperature")),
    ("This model does not support the `stop` parameter", Adaptation(key="stop")),
    ("This response_format type is unavailable now: not supported", Adaptation(key="response_format")),
    (
        "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.",
        Adaptation(key="max_tokens", at_most=16384),
    ),
    (
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        Adaptation(key="max_tokens", at_most=8192),
    ),
    (
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the "
        "`context_window` for this model",
        Adaptation(key="max_tokens", at_most=8192),
    ),
]


@pytest.mark.parametrize(("refusal", "expected"), LESSONS)
def test_a_refusal_that_names_a_key_is_a_lesson(refusal: str, expected: Adaptation):
    assert lesson(refusal, BODY) == expected


NO_LESSONS = [
    "",
    "Bad Request",
    "This model's maximum context length is 8192 tokens. However, max_tokens is not supported above 10.",
    "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
    "prompt is too long: 210000 tokens > 200000 maximum; thinking is not supported",
    "temperature must be between 0 and 2",
    "Unknown parameter: 'logit_bias'.",
    "I am thinking this stop is not supported",
    "max_tokens must be at most 64000",
]


@pytest.mark.parametrize("refusal", NO_LESSONS)
def test_other_refusals_are_none(refusal: str):
    assert lesson(refusal, BODY) is None


def test_a_key_that_was_not_sent_cannot_be_the_trouble():
    assert lesson("Unsupported parameter: 'max_tokens'", {"messages": []}) is None
    assert lesson("supports at most 16384 completion tokens", {"messages": []}) is None
    assert lesson("Unsupported parameter: 'top_k'", {"messages": []}) is None


def test_the_older_key_is_tried_where_the_newer_is_refused():
    body = {"max_completion_tokens": 5}

    assert lesson("Extra inputs are not permitted: max_completion_tokens", body) == Adaptation(
        key="max_completion_tokens", rename="max_tokens"
    )


def test_all_that_was_learnt_is_applied_to_a_copy():
    learnt = [
        Adaptation(key="max_tokens", at_most=8192),
        Adaptation(key="max_tokens", rename="max_completion_tokens"),
        Adaptation(key="top_k"),
        Adaptation(key="service_tier"),
    ]

    adapted = adapt(BODY, learnt)

    assert adapted["max_completion_tokens"] == 8192
    assert BODY.keys() - adapted.keys() == {"max_tokens", "top_k"}
    assert BODY["max_tokens"] == 32000
    assert adapt(adapted, learnt) == adapted


def test_a_limit_that_is_no_number_is_left_to_the_upstream():
    body = {"max_tokens": "many"}

    assert lesson("supports at most 16384 completion tokens", body) is None
    assert adapt(body, [Adaptation(key="max_tokens", at_most=5)]) == body
