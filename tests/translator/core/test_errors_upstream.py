"""What the client is told about each failure of an upstream."""

import json

import pytest

from translator.core.errors import (
    NO_RETRY,
    AnswerFailed,
    ClientError,
    ErrorType,
    InvalidRequest,
    UnsupportedFeature,
    UpstreamProtocolError,
    to_client_error,
)
from translator.core.openai_chat.errors import (
    connection_error,
    embedded_error,
    protocol_error,
    read_error,
    render_error,
    timeout_error,
)
from translator.core.retry_after import wait_in


def told(
    status: int, body: object = None, headers: dict[str, str] | None = None, secrets: tuple[str, ...] = ()
) -> ClientError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_error(status, headers or {}, data, requested_model="claude-x", secrets=secrets)


def error(message: str = "boom", **more: object) -> dict[str, object]:
    return {"error": {"message": message} | more}


#: upstream's status and body, then the client's status, type and message
ROWS = {
    "bad request": (400, error(), 400, "invalid_request_error", "boom"),
    "unprocessable": (422, {"detail": [{"loc": ["body", "messages", 0], "msg": "field required"}]}, 400, "invalid_request_error", "messages.0: field required"),
    "other 4xx": (418, error(), 400, "invalid_request_error", "boom"),
    "no money": (402, error("Insufficient Balance"), 402, "billing_error", "Insufficient Balance"),
    "zhipu's balance": (429, error("余额不足或无可用资源包,请充值。", code="1113"), 402, "billing_error", "余额不足或无可用资源包,请充值。"),
    "no quota": (429, error("You exceeded", type="insufficient_quota"), 402, "billing_error", "You exceeded"),
    "no quota, by its words": (429, error("You exceeded your current quota"), 402, "billing_error", "You exceeded your current quota"),
    "spend limit": (429, error("no", code="org_spend_limit_exceeded"), 402, "billing_error", "no"),
    "a call the model got wrong": (400, error("Failed to call", code="tool_use_failed"), 500, "api_error", "Failed to call"),
    "our credential": (401, error("Incorrect API key sk-1"), 500, "api_error", "upstream authentication failed"),
    "our credential is not allowed": (403, error("no"), 500, "api_error", "upstream authentication failed"),
    "our credential, as a 400": (400, error("API key not valid", code="invalid_api_key"), 500, "api_error", "upstream authentication failed"),
    "moderation": (403, error("Your input was flagged by the moderation"), 400, "invalid_request_error", "Your input was flagged by the moderation"),
    "unknown model": (404, error("no such model"), 404, "not_found_error", "model: claude-x (no such model)"),
    "unknown model, as a 400": (400, error("no", code="model_not_found"), 404, "not_found_error", "model: claude-x (no)"),
    "not found, no words": (404, {}, 404, "not_found_error", "model: claude-x"),
    "method": (405, error(), 500, "api_error", "upstream returned 405: boom"),
    "media type": (415, b"", 500, "api_error", "upstream returned 415"),
    "request timeout": (408, error(), 504, "timeout_error", "upstream timed out"),
    "conflict": (409, error(), 409, "conflict_error", "boom"),
    "too large": (413, error(), 413, "request_too_large", "Request exceeds the maximum size"),
    "rate limit": (429, error("slow down"), 429, "rate_limit_error", "slow down"),
    "rate limit, by its word": (400, error("slow down", code="rate_limit_exceeded"), 429, "rate_limit_error", "slow down"),
    "groq's capacity": (498, error(), 529, "overloaded_error", "Overloaded: boom"),
    "overloaded": (503, error("The server is overloaded"), 529, "overloaded_error", "Overloaded: The server is overloaded"),
    "overloaded, by its word": (500, error("no", type="overloaded_error"), 529, "overloaded_error", "Overloaded: no"),
    "overloaded, in Anthropic's words": (529, error("Overloaded", type="overloaded_error"), 529, "overloaded_error", "Overloaded"),
    "overloaded, no words": (503, b"", 529, "overloaded_error", "Overloaded"),
    "client closed": (499, error(), 500, "api_error", "boom"),
    "server error": (500, error(), 500, "api_error", "boom"),
    "bad gateway": (502, b"<!DOCTYPE html><html>Bad gateway</html>", 500, "api_error", "upstream returned 502"),
    "gateway timeout": (504, b"", 504, "timeout_error", "upstream timed out"),
    "cloudflare's timeout": (524, b"<html></html>", 504, "timeout_error", "upstream timed out"),
    "cloudflare's error": (521, b"", 500, "api_error", "upstream returned 521"),
    "a redirect": (302, b"", 502, "api_error", "upstream redirects"),
    "a success that is none": (204, b"", 500, "api_error", "upstream returned 204"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROWS)
def test_each_kind_of_failure(kind):
    status, body, *expected = ROWS[kind]
    got = told(status, body)

    assert [got.status, got.type, got.message] == expected


@pytest.mark.parametrize("kind", ["our credential", "method", "a redirect"])
def test_what_the_client_cannot_change_is_not_asked_again(kind):
    assert told(*ROWS[kind][:2]).headers == NO_RETRY


@pytest.mark.parametrize("kind", ["server error", "bad request", "rate limit", "overloaded"])
def test_the_rest_is_left_to_the_client(kind):
    assert told(*ROWS[kind][:2]).headers == {}


BODIES = {
    "an error in a list": [error()],
    "an error in an error": {"error": error()},
    "a string": "boom",
    "an error that is a string": {"error": "boom"},
    "a message": {"message": "boom", "object": "error"},
    "a detail": {"detail": "boom"},
    "a detail with a message": {"detail": {"message": "boom"}},
    "details": {"detail": [{"msg": "boom"}]},
    "details that are strings": {"detail": ["boom", 7]},
    "details with messages": {"detail": [{"loc": ["body"], "msg": "boom"}]},
    "a message in a message": {"message": {"message": "boom"}},
    "a list of messages": {"message": [{"message": "boom"}]},
    "a detail with an error": {"detail": {"error": "boom"}},
    "baidu's": {"error_code": 336003, "error_msg": "boom"},
    "aws's": {"Message": "boom", "__type": "ValidationException"},
    "cloudflare's": {"success": False, "errors": [{"code": 7003, "message": "boom"}], "messages": []},
    "errors that are strings": {"errors": ["boom"]},
    "an error message": {"error_message": "boom"},
    "minimax's": {"base_resp": {"status_code": 2013, "status_msg": "boom"}},
    "openrouter's, without words of its own": {"error": {"code": 400, "metadata": {"raw": json.dumps(error())}}},
    "oauth's": {"error": "", "error_description": "boom"},
    "a body in a message": {"error": {"message": json.dumps({"error": error()}), "code": 400}},
    "a body in a string": {"error": json.dumps({"error": error()})},
    "a problem": {"title": "boom", "status": 400},
}


def test_words_in_braces_that_are_no_body_are_told_as_they_are():
    assert told(400, error("{boom")).message == "{boom"
    assert told(400, error('{"boom": 1}')).message == told(400, {"error": '{"boom": 1}'}).message == '{"boom": 1}'


@pytest.mark.parametrize("shape", BODIES)
def test_each_shape_of_a_body(shape):
    assert told(400, BODIES[shape]).message == "boom"


@pytest.mark.parametrize(
    ("raw", "words"), [(json.dumps(error("tokens")), "tokens"), ("plain", "plain"), ("<html>", None)]
)
def test_the_providers_words_stand_behind_openrouters(raw, words):
    body = error("Provider returned error", code=400, metadata={"raw": raw, "provider_name": "x"})

    assert told(400, body).message == "Provider returned error" + (f": {words}" if words else "")


@pytest.mark.parametrize("body", [b"boom", b" boom \n", b"\xef\xbb\xbfboom"])
def test_plain_text(body):
    assert told(400, body).message == "boom"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"7",
        b"{}",
        b"[]",
        b"[[[[[[[[1]]]]]]]]",
        b'{"error":7}',
        b'{"message":7}',
        b"\xff\xfe",
        b"<html>boom",
    ],
)
def test_a_body_without_words(body):
    assert told(400, body).message in ("upstream returned 400", "\ufffd\ufffd")


OVERFLOWS = {
    "prompt is too long: 130977 tokens > 128000 maximum": [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130977 tokens. Please reduce the length of the messages.",
        "This model's maximum context length is 128000 tokens. However, you requested 131077 tokens (130977 in the messages, 100 in the completion).",
        "The input (130977 tokens) is longer than the model's context length (128000 tokens).",
        "the request (130977 tokens) exceeds the available context size (128000 tokens), try increasing it",
        "The input token count (130977) exceeds the maximum number of tokens allowed (128000).",
        "Request too large for model `m` on tokens per minute (TPM): Limit 128000, Requested 130977, please reduce your message size",
        "The prompt is too long: 130977, model maximum context length: 128000",
        "prompt is too long: 130977 tokens > 128000 maximum",
        "This model's maximum context length is 128,000 tokens. However, your messages resulted in 130,977 tokens.",
        "Input tokens exceed the configured limit of 128000 tokens. Your messages resulted in 130977 tokens.",
        "Input length 130977 exceeds maximum context length 128000",
        "The prompt (length 130977) exceeds the max model len 128000",
        "The decoder prompt (length 130977) is longer than the maximum model length of 128000.",
        "Input length 130977 exceeds the maximum length 128000",
        "Input validation error: `inputs` must have less than 128000 tokens. Given: 130977",
        "Please reduce the length of the messages or completion. Current length is 130977 while limit is 128000",
        "Requested input length 130977 exceeds maximum input length 128000",
        "Your request exceeded model token limit: 128000 (requested: 130977)",
        "prompt token count of 130977 exceeds the limit of 128000",
        "This model's maximum prompt length is 128000 but the request contains 130977 tokens.",
        "This endpoint's maximum context length is 128000 tokens. However, you requested about 131077 tokens (130977 of text input, 100 in the output).",
        "Trying to keep the first 130977 tokens when context the overflows. However, the model is loaded with context length of only 128000 tokens",
        "Prompt contains 130977 tokens and 0 draft tokens, too large for model with 128000 maximum context length",
    ],
    "input length and `max_tokens` exceed context limit: 241118 + 32000 > 262144, decrease input length or `max_tokens` and try again": [
        "Requested token count exceeds the model's maximum context length of 262144 tokens. You requested a total of 273118 tokens: 241118 tokens from the input messages and 32000 tokens for the completion.",
        "This model's maximum context length is 262144 tokens. However, you requested 273118 tokens (241118 in the messages, 32000 in the completion).",
        "This model's maximum context length is 262144 tokens. However, you requested 32000 output tokens and your prompt contains at least 241118 input tokens, for a total of at least 273118 tokens.",
        "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 262144 tokens and your request has 241118 input tokens (32000 > 262144 - 241118).",
        "You passed 241118 input tokens and requested 32000 output tokens. However, the model's context length is only 262144 tokens, resulting in a maximum input length of 230144 tokens.",
        "This endpoint's maximum context length is 262144 tokens. However, you requested about 273118 tokens (240118 of text input, 1000 of tool input, 32000 in the output). Please reduce the length of either one.",
        "`inputs` tokens + `max_new_tokens` must be <= 262144. Given: 241118 `inputs` tokens and 32000 `max_new_tokens`",
        "input length and `max_tokens` exceed context limit: 241118 + 32000 > 262144, decrease input length or `max_tokens` and try again",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("expected", "text"), [(words, text) for words, texts in OVERFLOWS.items() for text in texts])
@pytest.mark.parametrize("status", [400, 403, 413, 422, 500])
def test_a_request_too_long_is_told_in_the_words_that_clients_act_on(expected, text, status):
    got = told(status, error(text))

    assert (got.status, got.type, got.message) == (400, "invalid_request_error", expected)
    assert embedded_error(error(text), requested_model="m").message == expected


@pytest.mark.parametrize(
    "text",
    [
        "Prompt exceeds max length",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Total tokens of image and text exceed max message tokens.",
        "request exceeds model context limit",
    ],
)
def test_a_request_too_long_in_other_words(text):
    assert told(400, error(text)).message == f"prompt is too long: {text}"


def test_a_request_too_long_without_numbers():
    assert told(400, error("Input is too long for requested model.")).message == "prompt is too long: Input is too long for requested model."  # fmt: skip
    assert told(400, error("", code="context_length_exceeded")).message == "prompt is too long"
    assert told(400, error("", code="model_max_prompt_tokens_exceeded")).message == "prompt is too long"
    assert told(400, error("Range of input length should be [1, 129024]")).message == "prompt is too long: Range of input length should be [1, 129024]"  # fmt: skip
    assert told(400, error("tokens in request more than max tokens allowed")).message == "prompt is too long: tokens in request more than max tokens allowed"  # fmt: skip
    assert told(400, error("Please reduce the length of the messages or completion.")).message == "prompt is too long: Please reduce the length of the messages or completion."  # fmt: skip
    assert told(400, error("Prompt is too long")).message == "Prompt is too long"


def test_another_complaint_about_the_length_of_an_input_keeps_its_words():
    assert told(400, error("input length of tool name must be positive")).message == "input length of tool name must be positive"  # fmt: skip


def test_numbers_may_stand_beside_the_words():
    body = error("the request exceeds the available context size", n_prompt_tokens=9000, n_ctx=8192)

    assert told(400, body).message == "prompt is too long: 9000 tokens > 8192 maximum"


OTHERS = [
    "Invalid 'tools[3].function.name': string too long. Expected a string with maximum length 64, but got a string with length 71 instead.",
    "max_tokens is too large: 200000. This model supports at most 128000 completion tokens",
    "messages.4.content.1: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes",
]  # fmt: skip


@pytest.mark.parametrize("text", OTHERS)
def test_other_things_too_long_are_left_alone(text):
    assert told(400, error(text)).message == text


def test_a_rate_limit_is_no_request_too_long():
    text = "Rate limit reached on tokens per minute (TPM): Limit 6000, Used 5000, Requested 2000"

    assert told(429, error(text)).type is ErrorType.RATE_LIMIT


WAITS = {
    "seconds": ({"retry-after": "17"}, "17"),
    "part of a second": ({"retry-after": "0.2"}, "1"),
    "milliseconds": ({"retry-after-ms": "2500", "retry-after": "9"}, "3"),
    "a date": ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "30"),
    "a date that has passed": ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:28:30 GMT"}, "1"),
    "a date without a zone": ({"retry-after": "Wed, 21 Oct 2026 07:28:30", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "30"),
    "too long": ({"retry-after": "3600"}, "60"),
    "the reset of what is used up": (
        {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "7s", "x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "50s"},
        "7",
    ),
    "the later reset": ({"x-ratelimit-reset-requests": "1m2.5s", "x-ratelimit-reset-tokens": "20ms"}, "60"),
    "minutes": ({"x-ratelimit-reset-requests": "0m40s"}, "40"),
    "a plain number": ({"x-ratelimit-reset": "12"}, "12"),
    "a point in time": ({"x-ratelimit-reset": "1792567710000", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "30"),
    "a point in time, in seconds": ({"x-ratelimit-reset": "1792567710", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "30"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WAITS)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_the_wish_to_wait_is_passed_on(kind, status):
    headers, expected = WAITS[kind]

    assert told(status, error(), headers).headers == {"retry-after": expected}


NO_WAITS = [
    {"retry-after": "soon"},
    {"retry-after": "-5"},
    {"retry-after": "nan"},
    {"retry-after": "inf"},
    {"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"},
    {"x-ratelimit-reset": "1792567710000"},
    {"x-ratelimit-reset-requests": "later"},
    {"x-ratelimit-reset-requests": ""},
    {},
]


@pytest.mark.parametrize("headers", NO_WAITS)
def test_no_wish_no_header(headers):
    assert told(429, error(), headers).headers == {}


@pytest.mark.parametrize(("text", "expected"), [("Please try again in 17s.", "17"), ("retry after 1m2s", "60"), ("Retry after 26 seconds.", "26"), ("Please wait 1 minute", "60"), ("available in 1500 milliseconds", "2"), ("try again in a bit", None), ("try again in 9 lives", None)])  # fmt: skip
def test_the_wish_may_stand_in_the_text(text, expected):
    assert told(429, error(text)).headers.get("retry-after") == expected


@pytest.mark.parametrize(
    "more",
    [
        {"retry_after": 9},
        {"retry_after_seconds": "8.5"},
        {"resets_in_seconds": 9},
        {"details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "metadata": {"quotaResetDelay": "8.5s"}}]},
        {"details": [7, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9s"}]},
    ],
)
def test_the_wish_may_stand_in_the_error(more):
    assert told(429, error(**more)).headers == {"retry-after": "9"}
    assert wait_in(json.dumps(error(**more))) in (9, 8.5)
    assert told(429, error("try again in 3s", **more), {"retry-after": "5"}).headers == {"retry-after": "5"}


def test_other_failures_have_no_wait():
    assert told(400, error(), {"retry-after": "17"}).headers == {}


STREAM_ERRORS = {
    "a status": ({"code": 429, "message": "x"}, "rate_limit_error"),
    "a status in a string": ({"code": "503", "message": "x"}, "overloaded_error"),
    "a type": ({"type": "rate_limit_error", "message": "x"}, "rate_limit_error"),
    "openai's": ({"type": "server_error", "message": "x", "code": None}, "api_error"),
    "vllm's": ({"type": "BadRequestError", "message": "x"}, "invalid_request_error"),
    "openrouter's": ({"code": 502, "message": "x", "metadata": {"error_type": "provider_overloaded"}}, "overloaded_error"),
    "openai's, when it is full": ({"code": "server_is_overloaded", "message": "x"}, "overloaded_error"),
    "a number that is no status": ({"code": 7, "message": "x"}, "api_error"),
    "a string": ("x", "api_error"),
    "anything": (7, "api_error"),
}  # fmt: skip


@pytest.mark.parametrize("kind", STREAM_ERRORS)
def test_an_error_within_an_answer(kind):
    body, expected = STREAM_ERRORS[kind]

    assert embedded_error(body, requested_model="m").type == expected


def test_failures_without_an_answer():
    assert connection_error("dns").message == connection_error("whatever").message == "cannot reach upstream"
    assert connection_error("reset").message == "upstream closed the connection"
    assert [connection_error(kind).status for kind in ("connect", "reset", "unreadable")] == [500, 500, 502]
    assert (timeout_error(30).status, timeout_error(1.5).message) == (504, "upstream timed out after 1.5s")
    assert protocol_error("x").status == 500


def test_our_own_errors():
    wrong = to_client_error(InvalidRequest("messages.0", "Field required", {"error_code": "x"}))
    assert (wrong.status, wrong.type, wrong.message) == (400, "invalid_request_error", "messages.0: Field required")
    assert wrong.details == {"error_code": "x"}
    assert to_client_error(UnsupportedFeature("", "no")).message == "no"
    assert to_client_error(UpstreamProtocolError("x")).type is ErrorType.API
    assert to_client_error(AnswerFailed(wrong)) is wrong


@pytest.mark.parametrize("type_", ErrorType)
def test_clients_of_the_other_dialect_read_its_words(type_):
    body = render_error(ClientError(status=500, type=type_, message="x"))

    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"] == "x"


def test_our_secrets_are_never_told():
    got = told(400, error("key topsecret-1 of Bearer abcdefgh, sk-proj-12345678901"), secrets=("topsecret-1", "of"))

    assert got.message == "key [redacted] of [redacted] [redacted]"


@pytest.mark.parametrize(
    ("words", "wait_s"),
    [("try again in 17s", 17), ("wait 2 minutes", 120), ('{"retry_after": "soon"}', None), ("", None)],
)
def test_the_wish_may_stand_in_words_alone(words, wait_s):
    assert wait_in(words) == wait_s
