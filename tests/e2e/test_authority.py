"""Who may call: every route of the API, every way to say who one is, and browsers of other origins."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from django.urls import URLPattern, URLResolver
from django.urls import get_resolver as resolver_of
from django.utils.regex_helper import normalize

from bridgeproject.lean import API_PREFIX, PUBLIC_PATHS
from keys.tokens import new_token
from tests.e2e.client import TIMEOUT_S, TLS, question
from tests.e2e.test_secrecy import LOG_IN
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream

#: The API's own page, which is for staff.
PAGES = {"/docs", "/openapi.json", "/"}
SPELLINGS = {
    "x-api-key": lambda token: {"x-api-key": token},
    "bearer": lambda token: {"authorization": f"Bearer {token}"},
    "bearer in capitals": lambda token: {"AUTHORIZATION": f"BEARER {token}"},
    "both": lambda token: {"x-api-key": token, "authorization": f"Bearer {token}"},
    "beside a foreign one": lambda token: {"x-api-key": token, "authorization": "Bearer sk-ant-other"},
}


def api_paths() -> set[str]:
    """Give every path of the API from the URL table, so that a new one is found too."""
    return {f"/{path}" for path in _paths(resolver_of(), "") if path is not None}


def _paths(resolver: URLResolver, prefix: str, *, is_api: bool = False) -> Iterator[str]:
    for pattern in resolver.url_patterns:
        inside = is_api or getattr(pattern, "namespace", None) == "api"
        if isinstance(pattern, URLResolver):
            yield from _paths(pattern, prefix + str(pattern.pattern), is_api=inside)
        elif isinstance(pattern, URLPattern) and inside:
            (form, names), *_ = normalize(pattern.pattern.regex.pattern)
            yield prefix + form % dict.fromkeys(names, "some")


CLOSED = sorted(path for path in api_paths() - PUBLIC_PATHS if path not in PAGES)


@pytest.fixture(scope="module")
def one(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(upstream=upstream_process)


@pytest.fixture(scope="module")
def bad_tokens(one: RunningGateway) -> dict[str, str]:
    """Tokens that are none, or none any more."""
    revoked, expired, of_nobody = one.commands(
        ["issue_token", "gone"], ["issue_token", "late"], ["issue_token", "off"]
    ).splitlines()
    one.execute(
        "UPDATE keys_clienttoken t SET revoked_at = now() FROM auth_user u WHERE u.id = user_id AND username = 'gone'"
    )
    one.execute(
        "UPDATE keys_clienttoken t SET expires_at = now() FROM auth_user u WHERE u.id = user_id AND username = 'late'"
    )
    one.execute("UPDATE auth_user SET is_active = false WHERE username = 'off'")
    one.wait_until_known()
    return {
        "unknown": new_token(),
        "malformed": "brg_x",
        "revoked": revoked,
        "expired": expired,
        "of nobody": of_nobody,
    }


@pytest.fixture
def client(one: RunningGateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=one.base_url, trust_env=False, verify=TLS, timeout=TIMEOUT_S) as made:
        yield made


def test_every_route_is_either_public_by_name_or_behind_a_token() -> None:
    assert len(CLOSED) >= 6
    assert all(path.startswith(API_PREFIX) for path in CLOSED)
    assert api_paths() >= PUBLIC_PATHS


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_route_lets_a_bad_token_in_or_says_what_is_wrong_with_it(
    one: RunningGateway, bad_tokens: dict[str, str], upstream: ScriptedUpstream, spelling: str
) -> None:
    with calling_from(one, f"127.0.1.{list(SPELLINGS).index(spelling) + 1}") as client:
        for path in CLOSED[:5]:
            answers = [
                client.post(path, json=question("m"), headers=SPELLINGS[spelling](token))
                for token in bad_tokens.values()
            ]

            assert {answer.status_code for answer in answers} == {401}, path
            assert {str(answer.json()["error"]) for answer in answers} == {str(answers[0].json()["error"])}, path
            assert "invalid x-api-key" in answers[0].text
            assert {len(answer.content) for answer in answers} == {len(answers[0].content)}

    assert upstream.attempts() == []


@contextmanager
def calling_from(gateway: RunningGateway, address: str) -> Iterator[httpx.Client]:
    """Call from an address of one's own, since guessing is counted by address."""
    transport = httpx.HTTPTransport(local_address=address, verify=TLS, trust_env=False)
    with httpx.Client(base_url=gateway.base_url, transport=transport, timeout=TIMEOUT_S) as made:
        yield made


@pytest.mark.parametrize("path", CLOSED)
def test_no_route_lets_anybody_in_without_a_token(one: RunningGateway, path: str) -> None:
    with calling_from(one, f"127.0.2.{CLOSED.index(path) + 1}") as client:
        for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
            assert client.request(method, path).status_code == 401, method


def test_a_session_of_the_pages_opens_no_route(one: RunningGateway, client: httpx.Client) -> None:
    session = one.command("shell", "--verbosity", "0", "-c", LOG_IN)
    cookies = {"cookie": f"sessionid={session}"}

    assert client.get("/", headers=cookies).status_code == 200
    assert client.get("/docs", headers=cookies).status_code == 200
    for path in CLOSED:
        assert client.post(path, json=question("m"), headers=cookies).status_code == 401
    assert client.get("/docs").status_code == 302
    assert client.get("/openapi.json").status_code == 302


def test_no_page_of_another_origin_reads_an_answer_or_changes_anything(
    one: RunningGateway, client: httpx.Client
) -> None:
    session = one.command("shell", "--verbosity", "0", "-c", LOG_IN.replace("watcher", "surfer"))
    elsewhere = {"origin": "https://evil.example"}
    preflight = elsewhere | {"access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
    ours = {"x-api-key": one.token}
    answers = [
        client.post("/v1/messages", json=question("mock-n1-d0"), headers=elsewhere | ours),
        client.get("/v1/models", headers=elsewhere | ours),
        *(client.options(path, headers=preflight) for path in (*CLOSED, "/", "/tokens/new/", "/livez")),
        client.get("/", headers=elsewhere | {"cookie": f"sessionid={session}"}),
    ]
    changed = client.post(
        "/tokens/new/", data={"name": "stolen", "days": "30"}, headers=elsewhere | {"cookie": f"sessionid={session}"}
    )

    assert answers[0].status_code == 200
    assert not [name for answer in answers for name in answer.headers if name.startswith("access-control-")]
    assert changed.status_code == 403
    assert one.sql("SELECT 1 FROM keys_clienttoken WHERE name = 'stolen'") == []
