"""What clients of the Messages API rely on beside the answers: headers, lists of models, counts, limits, retries."""

import re
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest

from tests.e2e.client import TIMEOUT_S, ask, question
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.processes import ROOT
from tests.translator.core.upstreams import DONE, chunk, finish, usage
from tests.upstream import ScriptedUpstream

PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
WINDOW = 4_000


@pytest.fixture(scope="module")
def one(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """A gateway with two named models, one of which is known to be small, beside whatever the upstream takes."""
    gateway = make_gateway(
        upstream=upstream_process,
        keys=[f"sk-{number}" for number in range(12)],
        commands=[["add_route", alias, "scripted", "small"] for alias in ("claude-small", "anthropic/one:free")],
    )
    gateway.execute(
        "INSERT INTO keys_upstreammodel (upstream_id, name, context_window, max_output_tokens, tools, vision, pdf, "
        "reasoning) SELECT id, 'small', %s, 500, 'native', true, false, false FROM keys_upstream",
        [WINDOW],
    )
    ask(gateway, "demo")
    gateway.stop()
    gateway.start()
    return gateway


@pytest.fixture
def client(one: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=one.base_url, api_key=one.token, max_retries=0) as client:
        yield client


def post(gateway: RunningGateway, body: dict[str, Any], path: str = "/v1/messages", **headers: str) -> httpx.Response:
    headers = {"x-api-key": gateway.token, **headers}
    return httpx.post(f"{gateway.base_url}{path}", json=body, headers=headers, trust_env=False, timeout=TIMEOUT_S)


def prompt(words: int) -> str:
    return "The herons stood in the shallow water and waited. " * (words // 9)


def test_models_are_listed_page_by_page(client: anthropic.Anthropic) -> None:
    # What the upstream lists is waited for two seconds, and asked for anew after some more.
    until(lambda: "demo" in {model.id for model in client.models.list(limit=1000)}, within_s=60, every_s=1)

    every = [model.id for model in client.models.list(limit=1, lifecycle=["active"], workspace_id="w")]

    assert {"claude-small", "anthropic/one:free", "demo"} <= set(every)
    assert len(every) == len(set(every))
    back = client.models.list(limit=1, before_id=every[2])
    assert [model.id for model in back.data] == [every[1]]


def test_a_model_is_shown_with_what_is_known_of_it(client: anthropic.Anthropic) -> None:
    model = client.models.retrieve("anthropic/one:free")

    assert (model.id, model.type, model.display_name) == ("anthropic/one:free", "model", "anthropic/one:free")
    assert (model.max_input_tokens, model.max_tokens, model.lifecycle) == (WINDOW, 500, "active")


@pytest.mark.parametrize("query", ["limit=0", "limit=many", "limit=1001", "after_id=nobody", "before_id=nobody"])
def test_a_page_that_makes_no_sense_is_refused(one: RunningGateway, query: str) -> None:
    url, headers = f"{one.base_url}/v1/models?{query}", {"x-api-key": one.token}
    answer = httpx.get(url, headers=headers, trust_env=False, timeout=TIMEOUT_S)

    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_a_token_of_some_models_may_not_use_others(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    token = one.issue_token("bob")
    one.execute(
        "UPDATE keys_clienttoken SET scopes = '[\"demo*\"]' WHERE digest IN "
        "(SELECT digest FROM keys_clienttoken ORDER BY id DESC LIMIT 1)"
    )
    one.wait_until_known()
    bobs = RunningGateway(**{**one.__dict__, "token": token})

    assert ask(bobs, "demo").status == 200
    seen = ask(bobs, "claude-small")
    assert (seen.status, seen.error and seen.error["type"]) == (403, "permission_error")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"anthropic-version": "2023-06-01"},
        {"anthropic-version": "2026-10-21", "anthropic-beta": "a,b", "x-stainless-timeout": "NOT_GIVEN"},
        {"anthropic-version": "tomorrow", "accept": "application/json", "x-app": "cli"},
    ],
)
def test_versions_betas_and_other_headers_change_nothing(one: RunningGateway, headers: dict[str, str]) -> None:
    answer = post(one, question("demo"), "/v1/messages?beta=true", **headers)

    assert answer.status_code == 200
    assert answer.json()["type"] == "message"


def test_every_header_that_the_sdk_sends_is_on_the_page(
    one: RunningGateway, client: anthropic.Anthropic, upstream: ScriptedUpstream
) -> None:
    sent: list[str] = []
    client._client.event_hooks["request"].append(lambda request: sent.extend(request.headers))

    client.beta.messages.create(
        model="demo",
        max_tokens=9,
        messages=[{"role": "user", "content": "Hello"}],
        betas=["x"],
        user_profile_id="u",
        workspace_id="w",
    )

    ordinary = {"host", "connection", "content-length", "accept-encoding"}
    assert [name for name in set(sent) - ordinary if f"`{name}`" not in PAGE] == []
    [request] = upstream.requests()
    passed_on = {name.lower() for name, _ in request["headers"]}
    assert not {name for name in passed_on if name.startswith(("anthropic", "x-stainless", "x-api-key", "cookie"))}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_headers_of_an_answer(one: RunningGateway, upstream: ScriptedUpstream, stream: bool) -> None:
    answer = post(one, question("demo", stream=stream))

    assert re.fullmatch(r"req_[0-9A-Za-z]{24}", answer.headers["request-id"])
    assert re.fullmatch(r"chatcmpl-[0-9a-f]+", answer.headers["x-upstream-id"])
    assert [name for name in answer.headers if f"`{name}`" not in PAGE] == []
    if stream:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        assert "content-length" not in answer.headers


ONE_CALL: dict[str, Any] = {
    "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
}


def refusing(key: str, status: int = 400) -> dict[str, Any]:
    return {"status": status, "json": {"error": {"message": f"Unsupported parameter: {key}"}}}


@pytest.mark.parametrize(
    ("refused", "refusals", "status"),
    [("parallel_tool_calls", 1, 200), ("parallel_tool_calls", 2, 400), ("parallel_tool_calls or temperature", 2, 400)],
)
def test_a_key_is_left_out_from_now_on_if_that_has_helped(
    one: RunningGateway, upstream: ScriptedUpstream, refused: str, refusals: int, status: int
) -> None:
    model = f"picky-{refused[20:]}-{refusals}".replace(" ", "")
    upstream.script(raw=refusing(refused), model=model, times=refusals)
    assert post(one, question(model, temperature=1, **ONE_CALL)).status_code == status

    assert post(one, question(model, temperature=1, **ONE_CALL)).status_code == 200

    sent = ["parallel_tool_calls" in request["body"] for request in upstream.requests()]
    assert sent == [True, False, status != 200]


def test_a_validating_server_refuses_a_key_by_another_status(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    upstream.script(raw=refusing("parallel_tool_calls", 422), model="stern", times=1)

    assert post(one, question("stern", **ONE_CALL)).status_code == 200


def test_an_upstream_that_only_streams_serves_whole_answers(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    words = "This model only support stream mode, please enable the stream parameter to access the model."
    upstream.script(raw={"status": 400, "json": {"error": {"message": words}}}, model="streamer", times=1)

    answers = [post(one, question("streamer")) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1].json()["content"][0]["text"]
    assert answers[1].json()["usage"]["output_tokens"] > 0
    assert [request["body"].get("stream") for request in upstream.requests()] == [None, True, True]


def test_one_key_after_the_other_is_left_out(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    upstream.script(raw=refusing("parallel_tool_calls"), model="pickier", times=1)
    upstream.script(raw=refusing("temperature"), model="pickier", times=1)
    assert post(one, question("pickier", temperature=1, **ONE_CALL)).status_code == 400
    upstream.script(raw=refusing("temperature"), model="pickier", times=1)

    assert post(one, question("pickier", temperature=1, **ONE_CALL)).status_code == 200

    last = upstream.requests()[-1]["body"]
    assert not {"parallel_tool_calls", "temperature"} & set(last)


def test_an_id_that_is_no_header_is_not_told(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    upstream.script(raw={"json": {"id": "a\nb", "choices": [{"message": {"content": "x"}}]}}, model="odd")

    answer = post(one, question("odd"))

    assert answer.status_code == 200
    assert "x-upstream-id" not in answer.headers


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_thread_is_refused_in_the_words_that_make_the_tool_runner_go_on(one: RunningGateway, stream: bool) -> None:
    answer = post(one, question("demo", stream=stream, thread={"type": "create"}))

    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "type": "invalid_request_error",
        "message": "thread: not supported by this gateway",
        "details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
    }


def test_warming_a_cache_asks_no_upstream(client: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    message = client.messages.create(model="demo", max_tokens=0, messages=[{"role": "user", "content": "Hello"}])

    assert (message.content, message.stop_reason, message.usage.output_tokens) == ([], "max_tokens", 0)
    assert upstream.attempts() == []


def test_a_known_window_is_kept_before_the_call(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    seen = ask(one, "claude-small", prompt(2 * WINDOW))

    assert seen.status == 400
    assert seen.error is not None
    assert re.fullmatch(rf"prompt is too long: \d+ tokens > {WINDOW} maximum", seen.error["message"])
    assert upstream.attempts() == []


def test_the_limit_of_output_is_the_models(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    assert ask(one, "claude-small", max_tokens=128_000).status == 200

    assert upstream.requests()[0]["body"]["max_tokens"] == 500


def test_a_whole_answer_can_be_asked_for_after_a_broken_stream(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    upstream.script("cut,frame=2", model="flaky", times=1)

    broken = ask(one, "flaky")
    again = ask(one, "flaky", stream=False)

    assert broken.error is not None
    assert broken.events[-1]["type"] == "error"
    assert again.ended_well
    assert again.body["content"][0]["text"]
    assert upstream.requests()[1]["body"].get("stream", False) is False


def test_counts_and_broken_requests_for_them(one: RunningGateway, client: anthropic.Anthropic) -> None:
    hello: Any = [{"role": "user", "content": "Hello"}]
    tools: Any = [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}]

    assert client.messages.count_tokens(model="demo", messages=hello).input_tokens < 20
    assert client.beta.messages.count_tokens(model="demo", messages=hello, tools=tools).input_tokens > 40
    answer = post(one, {"model": "demo", "messages": [{"role": "user"}]}, "/v1/messages/count_tokens")
    assert answer.json()["error"]["message"] == "messages.0.content: Field required"


def test_counts_learn_from_what_the_upstream_counts(
    one: RunningGateway, client: anthropic.Anthropic, upstream: ScriptedUpstream
) -> None:
    text = prompt(900)
    messages: Any = [{"role": "user", "content": text}]
    before = client.messages.count_tokens(model="dense", messages=messages).input_tokens
    truth = round(before * 1.5)
    upstream.script(raw={"sse": [chunk(content="Hi"), finish(), usage(truth, 1), f"data: {DONE}\n\n"]}, model="dense")

    for _ in range(3):
        assert ask(one, "dense", text).ended_well

    def counted(model: str = "dense") -> int:
        return client.messages.count_tokens(model=model, messages=messages).input_tokens

    assert truth <= counted() <= truth * 1.05
    assert counted("another") == before
    start = ask(one, "dense", text).events[0]
    assert start["message"]["usage"]["input_tokens"] == counted()
    one.stop()
    one.start()
    client.base_url = f"{one.base_url}/"
    assert truth <= counted() <= truth * 1.05
