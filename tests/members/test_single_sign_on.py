"""Single sign-on against a provider made of a few lines, through real processes: it changes which apps there are."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from tests.gateway import MakeGateway, RunningGateway

MAKE_BOB = "from django.contrib.auth.models import User; User.objects.create_user('bob', email='bob@acme.example')"


class Provider(BaseHTTPRequestHandler):
    """Says of whoever comes what `claims` says."""

    claims: dict[str, Any] = {}
    verifiers: list[str] = []

    def do_GET(self) -> None:
        base = f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
        pages = {
            "/.well-known/openid-configuration": {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "userinfo_endpoint": f"{base}/userinfo",
                "jwks_uri": f"{base}/jwks",
            },
            "/userinfo": self.claims,
        }
        self._answer(pages[self.path])

    def do_POST(self) -> None:
        sent = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        self.verifiers.append(sent["code_verifier"][0])
        issuer = f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
        token = jwt.encode({**self.claims, "iss": issuer, "aud": "bridge", "exp": 2**33, "iat": 0}, "k" * 32)
        self._answer({"access_token": "a", "token_type": "Bearer", "id_token": token})

    def _answer(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def site(make_gateway: MakeGateway, provider: str) -> RunningGateway:
    return make_gateway(
        commands=(["migrate", "--verbosity", "0"], ["shell", "--verbosity", "0", "-c", MAKE_BOB]),
        BRIDGE_OIDC_ISSUER=provider,
        BRIDGE_OIDC_CLIENT_ID="bridge",
        BRIDGE_OIDC_CLIENT_SECRET="s3cret",
        BRIDGE_OIDC_NAME="Acme login",
    )


@pytest.fixture
def new_browser(site: RunningGateway) -> Iterator[Callable[[], httpx.Client]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(httpx.Client(base_url=site.base_url, trust_env=False, timeout=60))


def sign_on(browser: httpx.Client, **claims: Any) -> str:
    """Go to the provider and come back with its word; return where that leads."""
    Provider.claims = {"sub": "1", **claims}
    there = browser.get("/sso/oidc/login/?next=/tokens/new/")
    assert there.status_code == 302
    asked = parse_qs(urlsplit(there.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    back = browser.get("/sso/oidc/login/callback/", params={"code": "c", "state": asked["state"][0]})
    assert back.status_code == 302, back.text[:2000]
    return str(back.headers["location"])


def test_the_login_page_offers_it(site: RunningGateway) -> None:
    page = httpx.get(f"{site.base_url}/login/", trust_env=False, timeout=60).text

    assert "Acme login" in page
    assert "/sso/oidc/login/?next=" in page


def test_a_member_is_found_by_a_verified_address_and_then_by_the_account(new_browser) -> None:
    for claims in ({"email": "bob@acme.example", "email_verified": True}, {"email": "changed@elsewhere.example"}):
        browser = new_browser()
        assert sign_on(browser, sub="bob's", **claims) == "/tokens/new/"
        page = browser.get("/").text
        assert ">bob<" in page
        assert browser.get("/admin/").status_code == 302


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "bob@acme.example", "email_verified": False, "preferred_username": "bob"},
        {"email": "nobody@acme.example", "email_verified": True, "preferred_username": "alice"},
        {"preferred_username": "bob"},
    ],
)
def test_others_are_turned_away(new_browser, claims: dict[str, Any]) -> None:
    browser = new_browser()

    assert sign_on(browser, sub=json.dumps(claims), **claims) == "/login/"
    assert browser.get("/").status_code == 302
    assert "gave no account" in browser.get("/login/").text


def test_a_foreign_state_is_refused(new_browser) -> None:
    browser = new_browser()

    answer = browser.get("/sso/oidc/login/callback/", params={"code": "c", "state": "made-up"})

    assert answer.headers.get("location") == "/login/"
    assert browser.get("/").status_code == 302
