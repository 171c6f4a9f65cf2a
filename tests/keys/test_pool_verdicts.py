"""What upstreams answer, and what the pool makes of it: one row for each."""

from dataclasses import dataclass, field

import pytest

from keys.models import State as StoredState
from keys.pool.facts import Announced, Kind, Outcome, read_announced
from keys.pool.health import Health, after_failure
from keys.pool.verdicts import KINDS, RULES, STATUSES, Cause, Next, Recovery, Scope, State, judge

NOW = 1_800_000_000.0


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    status: int | None = None
    kind: Kind = Kind.HTTP_ERROR
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    cause: Cause
    scope: Scope
    next_step: Next = Next.CREDENTIAL
    #: After the first failure: the state and how long it rests.
    first: tuple[State, float] = (State.READY, 0)
    #: After the fifth in a row.
    fifth: tuple[State, float] = (State.READY, 0)
    recovery: Recovery = Recovery.PROBE


ROWS = [
    Row(
        name="the client's request is wrong",
        status=400,
        text="messages.0.content: field required",
        cause=Cause.CLIENT_FAULT,
        scope=Scope.REQUEST,
        next_step=Next.RETURN,
    ),
    Row(
        name="the prompt is too long",
        status=400,
        text="context_length_exceeded: maximum context length is 8192 tokens",
        cause=Cause.CLIENT_FAULT,
        scope=Scope.REQUEST,
        next_step=Next.RETURN,
    ),
    Row(
        name="no such path",
        status=404,
        text="Not Found",
        cause=Cause.CLIENT_FAULT,
        scope=Scope.REQUEST,
        next_step=Next.RETURN,
    ),
    Row(
        name="too large",
        status=413,
        cause=Cause.CLIENT_FAULT,
        scope=Scope.REQUEST,
        next_step=Next.RETURN,
    ),
    Row(
        name="unprocessable",
        status=422,
        text="temperature must be <= 2",
        cause=Cause.CLIENT_FAULT,
        scope=Scope.REQUEST,
        next_step=Next.RETURN,
    ),
    Row(
        name="the prompt was flagged",
        status=403,
        text="your input was flagged by moderation",
        cause=Cause.CLIENT_FAULT,
        scope=Scope.REQUEST,
        next_step=Next.RETURN,
    ),
    Row(
        name="wrong key",
        status=401,
        text="invalid_api_key: Incorrect API key provided",
        cause=Cause.WRONG_KEY,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 5),
        fifth=(State.QUARANTINED, 3600),
    ),
    Row(
        name="wrong key, said with 400",
        status=400,
        text="API key not valid. Please pass a valid API key.",
        cause=Cause.WRONG_KEY,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 5),
        fifth=(State.QUARANTINED, 3600),
    ),
    Row(
        name="forbidden",
        status=403,
        text="Forbidden",
        cause=Cause.WRONG_KEY,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 5),
        fifth=(State.QUARANTINED, 3600),
    ),
    Row(
        name="no access to this model",
        status=403,
        text="Project does not have access to model gpt-5",
        cause=Cause.NO_ACCESS,
        scope=Scope.CREDENTIAL_MODEL,
        first=(State.EJECTED, 3600),
        fifth=(State.EJECTED, 3600),
    ),
    Row(
        name="no such model for this key",
        status=404,
        text="The model `gpt-9` does not exist or you do not have access to it. model_not_found",
        cause=Cause.NO_ACCESS,
        scope=Scope.CREDENTIAL_MODEL,
        first=(State.EJECTED, 3600),
        fifth=(State.EJECTED, 3600),
    ),
    Row(
        name="payment required",
        status=402,
        cause=Cause.NO_CREDIT,
        scope=Scope.CREDENTIAL,
        first=(State.QUARANTINED, 1800),
        fifth=(State.QUARANTINED, 1800),
    ),
    Row(
        name="no credit, said with 400",
        status=400,
        text="Your credit balance is too low to access the API.",
        cause=Cause.NO_CREDIT,
        scope=Scope.CREDENTIAL,
        first=(State.QUARANTINED, 1800),
        fifth=(State.QUARANTINED, 1800),
    ),
    Row(
        name="no credit, said with 429",
        status=429,
        text="insufficient_quota: You exceeded your current quota",
        cause=Cause.NO_CREDIT,
        scope=Scope.CREDENTIAL,
        first=(State.QUARANTINED, 1800),
        fifth=(State.QUARANTINED, 1800),
    ),
    Row(
        name="rate limit with Retry-After",
        status=429,
        headers={"retry-after": "7"},
        cause=Cause.RATE_LIMIT,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 7),
        fifth=(State.COOLING, 7),
        recovery=Recovery.TIME,
    ),
    Row(
        name="rate limit without Retry-After",
        status=429,
        text="Too Many Requests",
        cause=Cause.RATE_LIMIT,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 1),
        fifth=(State.COOLING, 1),
        recovery=Recovery.TIME,
    ),
    Row(
        name="rate limit, the wait in x-ratelimit",
        status=429,
        headers={"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m12.5s"},
        cause=Cause.RATE_LIMIT,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 72.5),
        fifth=(State.COOLING, 72.5),
        recovery=Recovery.TIME,
    ),
    Row(
        name="rate limit for a day",
        status=429,
        headers={"retry-after": "86400"},
        cause=Cause.RATE_LIMIT,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 3600),
        fifth=(State.COOLING, 3600),
        recovery=Recovery.TIME,
    ),
    Row(
        name="workers are full, said with 429",
        status=429,
        text="ResourceExhausted: Worker local total request limit reached",
        cause=Cause.OVERLOADED,
        scope=Scope.UPSTREAM_MODEL,
        fifth=(State.COOLING, 5),
    ),
    Row(
        name="the model is overloaded",
        status=529,
        text="overloaded_error",
        cause=Cause.OVERLOADED,
        scope=Scope.UPSTREAM_MODEL,
        fifth=(State.COOLING, 5),
    ),
    Row(
        name="unavailable, with Retry-After",
        status=503,
        headers={"retry-after": "12"},
        cause=Cause.OVERLOADED,
        scope=Scope.UPSTREAM_MODEL,
        fifth=(State.COOLING, 12),
    ),
    Row(
        name="internal error",
        status=500,
        cause=Cause.SERVER_ERROR,
        scope=Scope.CREDENTIAL_MODEL,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="bad gateway, in HTML",
        status=502,
        text="<html><title>502 Bad Gateway</title>",
        cause=Cause.SERVER_ERROR,
        scope=Scope.CREDENTIAL_MODEL,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="gateway timeout",
        status=504,
        cause=Cause.SLOW,
        scope=Scope.CREDENTIAL_MODEL,
        next_step=Next.FALLBACK,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="a redirect",
        status=302,
        cause=Cause.BAD_ANSWER,
        scope=Scope.CREDENTIAL_MODEL,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="200 with an error in it",
        kind=Kind.BAD_ANSWER,
        status=500,
        text="internal",
        cause=Cause.SERVER_ERROR,
        scope=Scope.CREDENTIAL_MODEL,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="200 with a rate limit in it",
        kind=Kind.BAD_ANSWER,
        status=502,
        text="rate_limit_exceeded",
        cause=Cause.RATE_LIMIT,
        scope=Scope.CREDENTIAL,
        first=(State.COOLING, 1),
        fifth=(State.COOLING, 1),
        recovery=Recovery.TIME,
    ),
    Row(
        name="200 that is no answer",
        kind=Kind.BAD_ANSWER,
        text="<html>",
        cause=Cause.BAD_ANSWER,
        scope=Scope.CREDENTIAL_MODEL,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="cut in the middle",
        kind=Kind.TRUNCATED,
        cause=Cause.BAD_ANSWER,
        scope=Scope.CREDENTIAL_MODEL,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="no connection",
        kind=Kind.NETWORK,
        cause=Cause.NETWORK,
        scope=Scope.UPSTREAM,
        fifth=(State.COOLING, 5),
    ),
    Row(
        name="silence",
        kind=Kind.TIMEOUT,
        cause=Cause.SLOW,
        scope=Scope.CREDENTIAL_MODEL,
        next_step=Next.FALLBACK,
        fifth=(State.EJECTED, 30),
    ),
    Row(
        name="the client left",
        kind=Kind.CLIENT_GONE,
        cause=Cause.CLIENT_GONE,
        scope=Scope.REQUEST,
        next_step=Next.RETURN,
    ),
]


def outcome(row: Row) -> Outcome:
    return Outcome(kind=row.kind, status=row.status, error_text=row.text, headers=row.headers)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_answer_is_judged_by_the_table(row: Row) -> None:
    verdict = judge(outcome(row), now=NOW)

    assert (verdict.cause, verdict.rule.scope, verdict.rule.next_step) == (row.cause, row.scope, row.next_step)
    if row.scope is not Scope.REQUEST:
        assert verdict.rule.recovery is row.recovery


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_answer_leads_to_the_rest_in_the_table(row: Row) -> None:
    verdict = judge(outcome(row), now=NOW)
    health = Health()
    seen = []
    for _ in range(5):
        health = after_failure(health, verdict, now=NOW, jitter=0)
        seen.append((health.state, (health.until or NOW) - NOW))

    assert (seen[0], seen[4]) == (row.first, row.fifth)


def test_every_cause_has_a_rule_and_every_rest_a_limit() -> None:
    assert set(RULES) == set(Cause)
    assert all(rule.rest_s <= rule.rest_max_s for rule in RULES.values())
    assert {*KINDS.values(), *STATUSES.values()} <= set(Cause)


def test_states_are_called_the_same_in_the_database() -> None:
    assert {state.value for state in State} | {"undecryptable"} == set(StoredState.values)


@pytest.mark.parametrize(
    ("headers", "announced"),
    [
        ({}, Announced()),
        ({"retry-after": "7"}, Announced(retry_after_s=7)),
        ({"retry-after": "0.5"}, Announced(retry_after_s=0.5)),
        ({"retry-after": "20s"}, Announced(retry_after_s=20)),
        ({"retry-after": "-1"}, Announced()),
        ({"retry-after": "soon"}, Announced()),
        ({"retry-after": "\u0667"}, Announced()),
        ({"retry-after": "9" * 100}, Announced()),
        ({"retry-after": "nan"}, Announced()),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, Announced(retry_after_s=30)),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, Announced(retry_after_s=0)),
        ({"retry-after": "Fri, 99 Jan 2027"}, Announced()),
        ({"retry-after": str(int(NOW) + 9)}, Announced(retry_after_s=9)),
        ({"retry-after": str((int(NOW) + 9) * 1000)}, Announced(retry_after_s=9)),
        ({"retry-after-ms": "1500", "retry-after": "9"}, Announced(retry_after_s=1.5)),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, Announced(exhausted_for_s=360)),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6m0s"}, Announced()),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "250ms"}, Announced(exhausted_for_s=0.25)),
        ({"x-ratelimit-remaining-tokens": "0"}, Announced()),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "?"}, Announced()),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:40Z",
            },
            Announced(exhausted_for_s=40),
        ),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "1h1m1s",
            },
            Announced(exhausted_for_s=3661),
        ),
        (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1d"},
            Announced(exhausted_for_s=86_400),
        ),
    ],
)
def test_headers_are_read(headers: dict[str, str], announced: Announced) -> None:
    assert read_announced(headers, now=NOW) == announced


GEMINI = """[{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota.",
 "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "%s"}]},
 {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}]"""
CODEX = '{"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": 5400}}'


@pytest.mark.parametrize(
    ("headers", "text", "wait_s"),
    [
        ({}, "Rate limit reached on tokens per min (TPM). Please try again in 6m12s.", 372),
        ({"retry-after": "7"}, "Please try again in 20s.", 7),
        ({"retry-after": "0"}, "Please try again in 20s.", 20),
        ({}, GEMINI % "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", 34.5),
        ({}, GEMINI % "GenerateRequestsPerDayPerProjectPerModel-FreeTier", 3600),
        ({"retry-after": "43200"}, GEMINI % "GenerateRequestsPerDayPerProjectPerModel", 43_200),
        ({}, CODEX, 5400),
        ({}, '{"error": {"retry_after": "12.5"}}', 12.5),
        ({}, '{"error": {"details": [{"metadata": {"quotaResetDelay": "373.8ms"}}]}}', 0.3738),
        ({}, "Your quota will reset after 1h2m3s.", 3723),
        ({}, "try again in 9 lives", None),
    ],
)
def test_the_wait_is_read_from_the_words_where_no_header_says_it(
    headers: dict[str, str], text: str, wait_s: float | None
) -> None:
    assert (
        judge(Outcome(kind=Kind.HTTP_ERROR, status=429, error_text=text, headers=headers), now=NOW).announced.wait_s
        == wait_s
    )


@pytest.mark.parametrize("skew_s", [-5400, 5400])
@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"},
        {
            "anthropic-ratelimit-input-tokens-remaining": "0",
            "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:30Z",
        },
    ],
)
def test_dates_are_of_the_upstreams_clock(headers: dict[str, str], skew_s: int) -> None:
    told = read_announced({"date": "Fri, 15 Jan 2027 08:00:00 GMT", **headers}, now=NOW + skew_s)

    assert told.wait_s == 30


@pytest.mark.parametrize("text", ["model" * 10_000, "access " * 10_000, "invalid api" * 10_000, "api key " * 10_000])
def test_a_long_error_text_is_judged_in_no_time(text: str) -> None:
    for status in (200, 400, 403, 404, 429, 500, 503):
        judge(Outcome(kind=Kind.HTTP_ERROR, status=status, error_text=text), now=NOW)
