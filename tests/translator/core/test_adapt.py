from typing import Any

import pytest

from translator.core.openai_chat.adapt import Adaptation, adapt, is_refusal, lesson

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
    "tools": [{"type": "function", "function": {"name": "Read", "parameters": {"type": "object", "title": "R"}}}],
}
PLAIN = {"type": "function", "function": {"name": "Read", "parameters": {"type": "object", "properties": {}}}}
REASONING = {"type": "reasoning", "encrypted_content": "x"}

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
    # Kimi, Qwen, Anthropic's models
    ("tool_choice 'specified' is incompatible with thinking enabled", Adaptation(key="tool_choice")),
    ("Thinking may not be enabled when tool_choice forces tool use.", Adaptation(key="tool_choice")),
    ("{'loc': ('body', 'tool_choice'), 'msg': \"Input should be 'none' or 'auto'\"}", Adaptation(key="tool_choice")),
    ("invalid temperature: only 1 is allowed for this model", Adaptation(key="temperature")),
    ("`temperature` is deprecated for this model.", Adaptation(key="temperature")),
    ("`temperature` and `top_p` cannot both be specified for this model.", Adaptation(key="temperature")),
    # xAI
    ("Argument not supported on this model: reasoningEffort", Adaptation(key="reasoning_effort")),
    ("Argument not supported on this model: stop", Adaptation(key="stop")),
    ('{"message":"stop: Extra inputs are not permitted"}', Adaptation(key="stop")),
    ("Parallel tool calls are not supported by this model", Adaptation(key="parallel_tool_calls")),
    ("`reasoning_effort` must be one of `none` or `default`", Adaptation(key="reasoning_effort")),
    ("'response_format.type' must be 'text'", Adaptation(key="response_format")),
    ("This response_format type is unavailable now; the schema is not read", Adaptation(key="response_format")),
    (
        "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. To use function tools, "
        "use /v1/responses or set reasoning_effort to 'none'.",
        Adaptation(key="reasoning_effort", with_tools="none"),
    ),
    (
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet",
        Adaptation(key="max_tokens", at_most=8192),
    ),
    (
        "The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is "
        "lower than 8192",
        Adaptation(key="max_tokens", at_most=8192),
    ),
    ("The max_tokens parameter must be between 1 and 8192", Adaptation(key="max_tokens", at_most=8192)),
    # What of a tool's schema an upstream can't read
    (
        "Invalid schema for function 'Artifact': '^[^\\\\p{Cc}]$' is not a 'regex'.",
        Adaptation(key="tools", change="plain"),
    ),
    ("Failed to initialize samplers: failed to parse grammar", Adaptation(key="tools", change="plain")),
    (
        "tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'root': when using "
        "anyOf, type should be defined in anyOf items instead of the parent schema>",
        Adaptation(key="tools", change="plain"),
    ),
    (
        'Invalid JSON payload received. Unknown name "propertyNames" at '
        "'tools[0].function_declarations[0].parameters': Cannot find field.",
        Adaptation(key="tools", change="plain"),
    ),
    (
        "JSON Schema not supported: could not understand the instance `{'required': ['a']}`.",
        Adaptation(key="tools", change="plain"),
    ),
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
    "Invalid value for 'temperature': it must be one of 0 and 1",
    "The encrypted content gAAA could not be verified.",
]


@pytest.mark.parametrize("refusal", NO_LESSONS)
def test_other_refusals_are_none(refusal: str):
    assert lesson(refusal, BODY) is None


@pytest.mark.parametrize(
    ("status", "text", "is_one"),
    [
        (400, "", True),
        (404, "No endpoints found that support image input", True),
        (422, "Extra inputs are not permitted", True),
        (500, "Failed to initialize samplers: failed to parse grammar", True),
        (500, "unexpected error: no such table in the schema", False),
        (503, "failed to parse grammar", False),
        (None, "", False),
    ],
)
def test_only_what_is_the_same_at_each_try_is_a_refusal(status: int | None, text: str, is_one: bool):
    assert is_refusal(status, text) is is_one


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


def test_schemas_that_are_plain_already_are_not_the_trouble():
    body = BODY | {"tools": [PLAIN]}

    assert lesson("Failed to initialize samplers: failed to parse grammar", body) is None
    assert lesson("Unsupported parameter: 'top_k' is in no schema", body) == Adaptation(key="top_k")


def test_schemas_are_said_in_plain_words_from_then_on():
    assert adapt(BODY, [Adaptation(key="tools", change="plain")]) == BODY | {"tools": [PLAIN]}


def test_no_effort_is_made_beside_tools_only():
    learnt = Adaptation(key="reasoning_effort", with_tools="none")
    untold = {key: value for key, value in BODY.items() if key != "reasoning_effort"}
    toolless = {key: value for key, value in BODY.items() if key != "tools"}

    assert adapt(BODY, [learnt])["reasoning_effort"] == adapt(untold, [learnt])["reasoning_effort"] == "none"
    assert adapt(toolless, [learnt]) == toolless
    refusal = "Function tools are not supported; set reasoning_effort to 'none'."
    assert lesson(refusal, untold) == learnt
    assert lesson(refusal, BODY | {"reasoning_effort": "none"}) == Adaptation(key="reasoning_effort")


CHOICES: list[tuple[Any, str]] = [
    ("required", "Answer by calling one of the tools."),
    ("any", "Answer by calling one of the tools."),
    ("none", "Answer without calling a tool."),
    ({"type": "function", "function": {"name": "Read"}}, "Answer by calling the tool Read."),
    ({"type": "function", "name": "Read"}, "Answer by calling the tool Read."),
]


@pytest.mark.parametrize(("choice", "words"), CHOICES)
def test_a_choice_that_is_refused_is_asked_for_in_words(choice: Any, words: str):
    learnt = [Adaptation(key="tool_choice")]
    user, system = {"role": "user", "content": "Hi"}, {"role": "system", "content": "Be brief."}

    assert adapt({"tool_choice": choice, "messages": [user]}, learnt) == {
        "messages": [{"role": "system", "content": words}, user]
    }
    assert adapt({"tool_choice": choice, "messages": [system, user]}, learnt) == {
        "messages": [{"role": "system", "content": f"Be brief.\n\n{words}"}, user]
    }
    assert adapt({"tool_choice": choice, "input": []}, learnt) == {"input": [], "instructions": words}
    assert adapt({"tool_choice": choice, "instructions": "Be brief."}, learnt) == {
        "instructions": f"Be brief.\n\n{words}"
    }


def test_a_choice_that_says_nothing_needs_no_words():
    assert adapt({"tool_choice": "auto", "messages": []}, [Adaptation(key="tool_choice")]) == {"messages": []}


TEXT_ONLY = [
    "Failed to deserialize the JSON body into the target type: messages[3]: unknown variant `image_url`, expected `text`",
    "No endpoints found that support image input",
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "up-x is not a multimodal model",
    "This model does not support images",
]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}}
WORDS = {"type": "text", "text": "See"}


@pytest.mark.parametrize("refusal", TEXT_ONLY)
def test_images_are_left_out_for_a_model_that_reads_none(refusal: str):
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [WORDS, IMAGE]}]
    body = {"messages": turns, "tools": [PLAIN]}

    learnt = lesson(refusal, body)

    assert learnt == Adaptation(key="messages", change="textual")
    assert not learnt.is_lasting
    assert adapt(body, [learnt])["messages"] == [
        turns[0],
        {"role": "user", "content": "See\n\n[image omitted: this model does not accept images]"},
    ]
    assert lesson(refusal, {"messages": turns[:1]}) is None


def test_what_else_a_message_holds_is_kept_beside_the_words_for_an_image():
    file = {"type": "file", "file": {}}
    note = {"type": "text", "text": "[image omitted: this model does not accept images]"}
    item = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "x"}]}
    learnt = [Adaptation(key="messages", change="textual")]

    assert adapt({"messages": [{"role": "user", "content": [file, IMAGE]}]}, learnt) == {
        "messages": [{"role": "user", "content": [file, note]}]
    }
    assert adapt({"input": [item, REASONING]}, learnt) == {
        "input": [{**item, "content": [{**note, "type": "input_text"}]}, REASONING]
    }


@pytest.mark.parametrize(
    "refusal", ["Unsupported image format image/tiff", "We support image/png", "image exceeds 5 MB maximum"]
)
def test_one_image_that_is_refused_is_no_lesson(refusal: str):
    assert lesson(refusal, {"messages": [{"role": "user", "content": [IMAGE]}]}) is None


STREAMS_ONLY = [
    "This model only support stream mode, please enable the stream parameter to access the model.",
    "parameter.enable_thinking must be set to false for non-streaming calls",
    "enable thinking can not be support when `stream=False`.",
    "Stream must be set to true",
]


@pytest.mark.parametrize("refusal", STREAMS_ONLY)
def test_a_stream_is_asked_for_where_the_upstream_knows_nothing_else(refusal: str):
    learnt = Adaptation(key="stream", change="streamed")

    assert lesson(refusal, {"messages": []}) == learnt
    assert lesson(refusal, {"messages": [], "stream": True}) is None
    assert adapt({"messages": []}, [learnt]) == {
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert adapt({"input": []}, [learnt]) == {"input": [], "stream": True}


def test_a_change_leaves_bodies_alone_that_have_nothing_of_the_kind():
    body = {"messages": [], "stream": True}

    assert adapt(body, [Adaptation(key="tools", change="plain"), Adaptation(key="input", change="unreasoned")]) == body
    assert adapt(body, [Adaptation(key="stream", change="streamed")]) == body


RESPONSES: list[tuple[str, Adaptation]] = [
    ("The encrypted content gAAA...DQ== could not be verified.", Adaptation(key="input", change="unreasoned")),
    (
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        Adaptation(key="input", change="unreasoned"),
    ),
    ("Item with id 'rs_1' not found. Items are not persisted.", Adaptation(key="input", change="unreasoned")),
    ("Encrypted content is not supported with this model.", Adaptation(key="include")),
    (
        "Your organization must be verified to generate reasoning summaries.",
        Adaptation(key="reasoning", change="unsummarised"),
    ),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", Adaptation(key="reasoning")),
    (
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 32000 instead.",
        Adaptation(key="max_output_tokens", at_most=16384),
    ),
]


@pytest.mark.parametrize(("refusal", "expected"), RESPONSES)
def test_a_refusal_of_the_responses_api_is_a_lesson(refusal: str, expected: Adaptation):
    body: dict[str, Any] = {"max_output_tokens": 32000, "include": ["x"], "input": [REASONING]}
    body["reasoning"] = {"effort": "low", "summary": "auto"}

    assert lesson(refusal, body) == expected


def test_reasoning_goes_on_without_its_summary():
    learnt = Adaptation(key="reasoning", change="unsummarised")

    assert adapt({"reasoning": {"effort": "low", "summary": "auto"}}, [learnt]) == {"reasoning": {"effort": "low"}}
    assert adapt({"input": []}, [learnt]) == {"input": []}


def test_reasoning_is_left_out_of_one_conversation_only():
    learnt = Adaptation(key="input", change="unreasoned")
    message = {"type": "message", "role": "user", "content": []}

    assert adapt({"input": [REASONING, message]}, [learnt]) == {"input": [message]}
    assert not learnt.is_lasting
    assert Adaptation(key="include").is_lasting
    assert lesson("The encrypted content gAAA could not be verified.", {"input": [message]}) is None
