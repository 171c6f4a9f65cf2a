"""Where a call goes and what travels with it is ours to say: nothing a client sends changes that."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.e2e.client import TIMEOUT_S, TLS, question
from tests.gateway import MakeGateway, RunningGateway, route_words, upstream_words
from tests.upstream import ScriptedUpstream

MODEL = "mock-n1-d0"
KEY = "sk-of-the-team-0001"
#: Names by which other gateways let a client choose where, or with what, a call goes.
NAMES = """
api_base base_url api_url url endpoint host hostname target upstream upstream_url proxy proxy_url http_proxy https_proxy
api_key apikey api-key key keys token credentials auth authorization_override provider model_provider
custom_llm_provider llm_provider deployment deployment_id region region_name aws_region_name aws_bedrock_runtime_endpoint
vertex_project vertex_location azure_ad_token organization project headers extra_headers default_headers extra_body
extra_query metadata_url callback callback_url webhook webhook_url litellm_params litellm_metadata model_list fallbacks
router config x-portkey-config x-portkey-custom-host x-portkey-provider x-litellm-api-base x-upstream-url
x-target-url helicone-target-url openai-base-url anthropic-base-url x-forwarded-host x-real-host x-host _ __proto__
ap\u0456_base base\uff3furl
""".split()  # noqa: SIM905  (a list of sixty lines says no more)
#: What an upstream is sent beside its body.
HEADERS = {
    "accept", "accept-encoding", "authorization", "content-length", "content-type", "host", "user-agent", "x-request-id",
}  # fmt: skip
OF_ANTHROPIC = (HEADERS - {"authorization"}) | {"x-api-key", "anthropic-version", "anthropic-beta"}
#: What a client or a proxy before us may send, and no upstream has any business with.
PRIVATE = {
    "cookie": "sessionid=abcdef",
    "x-forwarded-for": "10.0.0.7",
    "x-forwarded-host": "bridge.example",
    "x-real-ip": "10.0.0.7",
    "via": "1.1 proxy",
    "forwarded": "for=10.0.0.7",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "x-stainless-lang": "python",
    "user-agent": "claude-cli/2.1.332 (external, cli)",
    "x-claude-code-session-id": "session-1",
    "origin": "https://evil.example",
    "referer": "https://evil.example/",
    "anthropic-beta": "some-beta",
    "openai-organization": "org-1",
    "proxy-authorization": "Basic abc",
}


@contextmanager
def attacker() -> Iterator[tuple[str, list[object]]]:
    """Give the address of a server that nobody may call, and who came."""
    came: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def wait() -> None:
            with suppress(OSError):
                while True:
                    connection, address = listener.accept()
                    came.append(address)
                    connection.close()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", came
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=60)


@pytest.fixture(scope="module")
def ours(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    base_url = upstream_process.base_url
    return make_gateway(
        commands=[
            upstream_words("chat", base_url, KEY),
            upstream_words("messages", base_url, KEY, dialect="anthropic"),
            upstream_words("responses", base_url, KEY, dialect="openai_responses"),
            route_words("*", "chat", MODEL),
            route_words("via-messages", "messages", MODEL),
            route_words("via-responses", "responses", MODEL),
        ],
        HTTP_PROXY="http://127.0.0.1:9",
        HTTPS_PROXY="http://127.0.0.1:9",
        ALL_PROXY="http://127.0.0.1:9",
    )


@pytest.fixture
def client(ours: RunningGateway) -> Iterator[httpx.Client]:
    headers = {"x-api-key": ours.token}
    with httpx.Client(base_url=ours.base_url, headers=headers, trust_env=False, verify=TLS, timeout=TIMEOUT_S) as made:
        yield made


def assert_went_home(upstream: ScriptedUpstream, count: int) -> None:
    requests = upstream.requests()
    assert len(requests) == count
    for request in requests:
        headers = {name.lower(): value for name, value in request["headers"]}
        assert request["path"] == "/v1/chat/completions"
        assert headers["authorization"] == f"Bearer {KEY}"
        assert headers["host"] == upstream.base_url.split("/")[2]
        assert request["body"]["model"] == MODEL


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_no_name_leads_a_call_elsewhere(client: httpx.Client, upstream: ScriptedUpstream, path: str) -> None:
    assert len(NAMES) >= 60
    with attacker() as (address, came):
        url = f"http://{address}/v1"
        for name in NAMES:
            value = {"api_base": url, "url": url, "authorization": "Bearer x"} if "headers" in name else url
            header = {name: url} if name.isascii() and name not in ("host", "headers") else {}
            body = question(MODEL) | {name: value}
            answer = client.post(f"{path}?{quote(name)}={quote(url)}", json=body, headers=header)
            assert answer.status_code == 200, (name, answer.text)
        nested = question(MODEL, metadata={"api_base": url}, litellm_params={"api_base": url})
        assert client.post(path, json=nested).status_code == 200
        twice = json.dumps(question(MODEL))[:-1] + f', "model": "{url}"}}'
        assert client.post(path, content=twice.encode()).status_code == 400

    assert came == []
    assert_went_home(upstream, len(NAMES) + 1)
    if path == "/v1/messages":
        sent = {name for request in upstream.requests() for name in request["body"]}
        assert sent <= {"model", "messages", "max_tokens", "stream", "user"}


@pytest.mark.parametrize(
    ("alias", "path", "allowed"),
    [
        ("chat", "/v1/messages", HEADERS),
        ("chat", "/v1/chat/completions", HEADERS),
        ("via-responses", "/v1/messages", HEADERS),
        ("via-messages", "/v1/messages", OF_ANTHROPIC),
    ],
)
def test_upstreams_get_these_headers_and_no_others(
    client: httpx.Client, ours: RunningGateway, upstream: ScriptedUpstream, alias: str, path: str, allowed: set[str]
) -> None:
    answer = client.post(path, json=question(alias), headers=PRIVATE)

    assert answer.status_code == 200, answer.text
    [request] = upstream.requests()
    sent = {name.lower(): value for name, value in request["headers"]}
    assert set(sent) - {"connection"} == allowed
    assert sent["user-agent"].startswith("bridge/")
    assert KEY in sent.get("authorization", "") + sent.get("x-api-key", "")
    assert ours.token not in json.dumps(request)


def test_addresses_in_messages_are_not_called(client: httpx.Client, upstream: ScriptedUpstream) -> None:
    with attacker() as (address, came):
        sources: list[dict[str, Any]] = [
            {"type": "image", "source": {"type": "url", "url": f"http://{address}/cat.png"}},
            {"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}},
            {"type": "document", "source": {"type": "url", "url": f"http://{address}/paper.pdf"}},
        ]
        for block in sources:
            client.post("/v1/messages", json=question(MODEL) | {"messages": [{"role": "user", "content": [block]}]})
        for url in (f"http://{address}/cat.png", "file:///etc/passwd"):
            part = {"type": "image_url", "image_url": {"url": url}}
            body = question(MODEL) | {"messages": [{"role": "user", "content": [part]}]}
            client.post("/v1/chat/completions", json=body)

    assert came == []
    assert "root:" not in json.dumps(upstream.requests())


def test_a_redirect_of_the_upstream_leads_nowhere(client: httpx.Client, upstream: ScriptedUpstream) -> None:
    with attacker() as (address, came):
        answer = client.post("/v1/messages", json=question(MODEL))
        assert answer.status_code == 200
        upstream.script(f"redirect=http://{address}/v1/chat/completions", model=MODEL)
        answer = client.post("/v1/messages", json=question(MODEL))

    assert answer.status_code == 502
    assert address not in answer.text
    assert came == []
