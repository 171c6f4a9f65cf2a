"""What the endpoints promise beyond a conversation: who may call, how often, and what they say of themselves."""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.client import TIMEOUT_S, ask, opened, question
from tests.gateway import MakeGateway, RunningGateway
from tests.processes import ROOT
from tests.translator.core.upstreams import chunk, finish, usage
from tests.upstream import ScriptedUpstream


@pytest.fixture(scope="module")
def one(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(upstream=upstream_process)


def post(gateway: RunningGateway, body: Any, path: str = "/v1/messages", **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"x-api-key": gateway.token, "content-type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return httpx.post(f"{gateway.base_url}{path}", content=content, headers=sent, trust_env=False, timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "JSON"),
        (b"[]", "object"),
        ({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}, "model"),
        ({"model": "m", "messages": [{"role": "user", "content": "x"}]}, "max_tokens: Field required"),
        ({"model": "m", "max_tokens": "many", "messages": [{"role": "user", "content": "x"}]}, "max_tokens"),
        ({"model": "m", "max_tokens": 1, "messages": []}, "messages"),
        ({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        ({"model": "m", "max_tokens": 1, "stream": "yes", "messages": [{"role": "user", "content": "x"}]}, "stream"),
    ],
)
def test_a_malformed_request_is_told_what_is_wrong_and_where(one: RunningGateway, body: Any, words: str) -> None:
    answer = post(one, body)

    error = answer.json()
    assert answer.status_code == 400
    assert error["type"] == "error"
    assert error["error"]["type"] == "invalid_request_error"
    assert words in error["error"]["message"]
    assert error["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": "sk-ant-somebody-elses"},
        {"authorization": "Bearer brg_" + "0" * 39},
        {"x-api-key": "' OR 1=1--"},
        {"authorization": "Basic abc"},
    ],
)
def test_whoever_has_no_token_of_ours_gets_the_same_401(one: RunningGateway, headers: dict[str, str]) -> None:
    url = f"{one.base_url}/v1/messages"
    answer = httpx.post(url, json=question("m"), headers=headers, trust_env=False, timeout=TIMEOUT_S)

    assert answer.status_code == 401
    assert answer.json()["error"] == {"type": "authentication_error", "message": "invalid x-api-key"}
    assert answer.headers["x-should-retry"] == "false"


def test_a_foreign_key_beside_ours_is_ignored(one: RunningGateway) -> None:
    answer = post(one, question("mock-n1-d0"), authorization="Bearer sk-ant-old-login")

    assert answer.status_code == 200


def test_two_different_tokens_of_ours_are_refused(one: RunningGateway) -> None:
    other = one.issue_token("somebody")

    answer = post(one, question("mock-n1-d0"), authorization=f"Bearer {other}")

    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status", "type_"),
    [
        ("GET", "/v1/messages", 405, "invalid_request_error"),
        ("POST", "/v1/nothing", 404, "not_found_error"),
        ("GET", "/v1/models/none/such", 200, None),
    ],
)
def test_what_is_not_there_is_said_in_json(
    one: RunningGateway, method: str, path: str, status: int, type_: str | None
) -> None:
    headers = {"x-api-key": one.token}
    answer = httpx.request(method, f"{one.base_url}{path}", headers=headers, trust_env=False, timeout=TIMEOUT_S)

    assert answer.status_code == status
    assert type_ is None or answer.json()["error"]["type"] == type_


@pytest.mark.parametrize(
    "path", ["/messages", "//v1/messages", "/v1", "/anthropic/v1/messages", "/api/event_logging/batch"]
)
def test_a_wrong_base_url_is_told_to_programs_in_json(one: RunningGateway, path: str) -> None:
    headers = {"x-api-key": one.token}
    answer = httpx.post(f"{one.base_url}{path}", json={}, headers=headers, trust_env=False, timeout=TIMEOUT_S)

    assert answer.status_code == 404
    assert answer.json()["error"] == {"type": "not_found_error", "message": f"there is nothing at {path}"}
    assert answer.json()["request_id"] == answer.headers["request-id"]


def test_a_wrong_address_is_told_to_people_on_a_page(one: RunningGateway) -> None:
    headers = {"accept": "text/html,*/*;q=0.8"}
    answer = httpx.get(f"{one.base_url}/nothing", headers=headers, trust_env=False, timeout=TIMEOUT_S)

    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


def test_a_body_over_the_limit_gets_its_413(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> None:
    small = make_gateway(upstream=upstream_process, BRIDGE_MAX_BODY_BYTES="100000")
    large = question("m", "x" * 3_000_000)

    declared = post(small, large)
    chunked = httpx.post(
        f"{small.base_url}/v1/messages",
        content=iter([b"x" * 50_000] * 60),
        headers={"x-api-key": small.token},
        trust_env=False,
        timeout=TIMEOUT_S,
    )

    for answer in (declared, chunked):
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "request_too_large"


def test_a_compressed_body_is_refused_in_words(one: RunningGateway) -> None:
    answer = post(one, question("m"), content_encoding="gzip")

    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_head_of_the_root_is_answered(one: RunningGateway) -> None:
    assert httpx.head(one.base_url, trust_env=False, timeout=TIMEOUT_S).status_code == 200


def test_a_token_that_is_revoked_ends_its_streams(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    token = one.issue_token("leaver")
    leaver = RunningGateway(**{**one.__dict__, "token": token})

    with opened(leaver, question("script/ok,frames=2000,gap=20ms", stream=True, max_tokens=9000)) as answer:
        parts = answer.iter_raw()
        next(parts)
        began = time.monotonic()
        one.execute(
            "UPDATE keys_clienttoken SET revoked_at = now() WHERE user_id = (SELECT id FROM auth_user WHERE username = 'leaver')"
        )
        last = list(parts)[-1]

    assert b"authentication_error" in last
    assert time.monotonic() - began < 30
    upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)
    assert ask(leaver, "mock-n1-d0").status == 401


def test_the_same_key_makes_one_call(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    body = question("mock-n5-d20")
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: post(one, body, idempotency_key="order-7"), range(10)))

    later = post(one, body, idempotency_key="order-7")
    other = post(one, question("mock-n1-d0"), idempotency_key="order-7")

    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    assert (later.status_code, other.status_code) == (409, 422)
    assert upstream.truth()["totals"]["attempts"] == 1


def test_a_call_that_failed_may_be_made_again_with_its_key(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    failed = post(one, question("script/status=400"), idempotency_key="order-8")
    again = post(one, question("script/status=400"), idempotency_key="order-8")

    assert (failed.status_code, again.status_code) == (400, 400)
    assert upstream.truth()["totals"]["attempts"] == 2


def test_openai_clients_share_tokens_routes_and_ledger(one: RunningGateway) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]

    with openai.OpenAI(base_url=f"{one.base_url}/v1", api_key=one.token, max_retries=0) as client:
        whole = client.chat.completions.create(model="mock-n5-d0", messages=messages)
        with client.chat.completions.create(model="mock-n5-d0", messages=messages, stream=True) as stream:
            chunks = list(stream)
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="nonsense").chat.completions.create(model="m", messages=messages)

    assert whole.choices[0].message.content
    assert all(chunk.usage is None for chunk in chunks), "nobody asked for usage"
    records = one.settled()[-2:]
    assert [(record["state"], record["source"]) for record in records] == [("ok", "upstream")] * 2


def test_openai_clients_get_the_shape_that_they_asked_for(one: RunningGateway, upstream: ScriptedUpstream) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    chunks = [chunk(content="H"), chunk(content="i"), finish(), usage(), "data: [DONE]\n\n"]
    upstream.script(raw={"json": body}, model="never-streams")
    upstream.script(raw={"sse": chunks}, model="always-streams")

    with openai.OpenAI(base_url=f"{one.base_url}/v1", api_key=one.token, max_retries=0) as client:
        streamed = list(client.chat.completions.create(model="never-streams", messages=messages, stream=True))
        whole = client.chat.completions.create(model="always-streams", messages=messages)

    assert "".join(part.choices[0].delta.content or "" for part in streamed) == "Hi"
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("Hi", "stop")
    assert whole.usage
    assert whole.usage.completion_tokens == 5
    assert [record["state"] for record in one.settled()[-2:]] == ["ok", "ok"]


def test_numbers_for_prometheus_are_those_of_all_workers(
    make_gateway: MakeGateway, upstream_process: ScriptedUpstream
) -> None:
    two = make_gateway(workers=2, upstream=upstream_process, BRIDGE_METRICS_TOKEN="scrape-me")
    for _ in range(12):
        assert ask(two, "mock-n2-d0").ended_well
    two.settled(12)

    url, headers = f"{two.base_url}/metrics", {"authorization": "Bearer scrape-me"}
    hidden = httpx.get(url, trust_env=False, timeout=TIMEOUT_S)
    shown = httpx.get(url, headers=headers, trust_env=False, timeout=TIMEOUT_S)

    assert hidden.status_code == 404
    ok = [line for line in shown.text.splitlines() if line.startswith("bridge_attempts_total{") and '"ok"' in line]
    assert sum(float(line.rpartition(" ")[2]) for line in ok) == 12
    assert two.token not in shown.text


def test_guessing_is_slowed_down_and_good_tokens_pass(
    make_gateway: MakeGateway, upstream_process: ScriptedUpstream
) -> None:
    guessed = make_gateway(upstream=upstream_process)
    with httpx.Client(base_url=guessed.base_url, trust_env=False, timeout=TIMEOUT_S) as client:
        statuses = [
            client.post("/v1/messages", headers={"x-api-key": f"brg_{n}", "x-forwarded-for": f"10.0.0.{n}"}).status_code
            for n in range(40)
        ]

    assert statuses == [401] * 30 + [429] * 10
    assert ask(guessed, "mock-n1-d0").ended_well


def test_the_application_runs_on_daphne_too(one: RunningGateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        file = listener.fileno()  # the port itself, since nobody else may take it meanwhile
        command = [sys.executable, "-m", "daphne", "--fd", str(file), "bridgeproject.asgi:application"]
        there = RunningGateway(**{**one.__dict__, "base_url": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        daphne = subprocess.Popen(command, cwd=ROOT, env=os.environ | one.environment, pass_fds=[file])
    with daphne:
        try:
            there.wait_ready()
            seen = ask(there, "mock-n3-d0")
            one.settled()  # Daphne ends at once, and what isn't settled by then is lost
        finally:
            daphne.terminate()

    assert seen.ended_well
