"""Requests that two workers turn away leave a trace for their token's member, whatever the reason."""

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.e2e.client import question
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream

BUDGET = """
INSERT INTO usage_budget (name, subject, subject_id, period, unit, enabled, "limit", spent, reserved, warn_percents,
    warn_emails, warn_webhook, warned_percent)
SELECT 'tiny', 'token', id, 'month', 'tokens', true, 1, 1, 0, '{}', '{}', '', 0 FROM keys_clienttoken WHERE id = %s"""


def changed(columns: str) -> str:
    return f"UPDATE keys_clienttoken SET {columns} WHERE id = %s"  # noqa: S608  (words of this file)


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to be turned away."""

    status: int
    message: str
    prepare: str = changed("name = name")
    path: str = "/v1/messages"
    body: dict[str, Any] = field(default_factory=lambda: question("mock-n1-d0"))


WAYS = {
    "expired": Way(status=401, message="revoked or has expired", prepare=changed("expires_at = now()")),
    "revoked": Way(status=401, message="revoked or has expired", prepare=changed("revoked_at = now()")),
    "model": Way(status=403, message="may not use the model", prepare=changed("""scopes = '["other"]'""")),
    "place": Way(
        status=403, message="may not be used from 127.0.0.1", prepare=changed("""networks = '["192.0.2.0/24"]'""")
    ),
    "rate": Way(status=429, message="this token's limit of", prepare=changed("rpm = 1")),
    "budget": Way(status=402, message="the budget 'tiny' is spent", prepare=BUDGET),
    "route": Way(status=404, message="model: nowhere", body=question("nowhere")),
    "body": Way(status=400, message="messages", body={"model": "mock-n1-d0", "max_tokens": 5}),
    "path": Way(status=404, message="there is nothing at /v1/v1/messages", path="/v1/v1/messages"),
}


@pytest.fixture(scope="module")
def running(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    running = make_gateway(workers=2, upstream=upstream_process)
    running.execute("UPDATE keys_route SET alias = 'mock-*'")
    running.add_route("script/*", "scripted")
    return running


@pytest.fixture(scope="module")
def tokens(running: RunningGateway) -> dict[str, str]:
    lines = running.commands(*(["issue_token", name] for name in WAYS)).splitlines()
    return dict(zip(WAYS, lines, strict=True))


def sent(running: RunningGateway, way: Way, plain: str) -> httpx.Response:
    headers = {"x-api-key": plain, "user-agent": "claude-cli/2.1.332 (external, cli)"}
    return httpx.post(f"{running.base_url}{way.path}", json=way.body, headers=headers, trust_env=False, timeout=60)


def turned_away(running: RunningGateway, way: Way, plain: str) -> httpx.Response:
    """Send it until the worker that gets it knows what was changed; give that answer."""

    def answered() -> httpx.Response | None:
        answer = sent(running, way, plain)
        return answer if answer.status_code == way.status else None

    answer: httpx.Response = until(answered, within_s=30)
    return answer


def refusals(running: RunningGateway) -> dict[str, dict[str, Any]]:
    rows = running.sql("SELECT * FROM keys_tokenrefusal")
    return {row["request_id"]: row for row in rows}


@pytest.mark.parametrize("name", WAYS)
def test_the_last_refusal_of_a_token_is_kept(running: RunningGateway, tokens: dict[str, str], name: str) -> None:
    way, plain = WAYS[name], tokens[name]
    (token,) = running.sql(
        "SELECT t.id FROM keys_clienttoken t JOIN auth_user u ON u.id = user_id WHERE username = %s", name
    )
    running.execute(way.prepare, [token["id"]])

    answer = turned_away(running, way, plain)
    kept = until(lambda: refusals(running).get(answer.headers["request-id"]), within_s=30)

    assert (kept["token_id"], kept["status"], kept["path"]) == (token["id"], way.status, way.path)
    assert way.message in kept["message"]
    assert (kept["client_name"], kept["client_version"]) == ("claude-cli", "2.1.332")


def test_what_an_upstream_refused_has_a_record_and_strangers_leave_nothing(running: RunningGateway) -> None:
    failed = turned_away(running, Way(status=400, message="", body=question("script/status=400")), running.token)
    stranger = sent(running, WAYS["body"], "brg_" + "0" * 39)
    # Written later than both, in the order in which they came.
    known = [sent(running, WAYS["body"], running.token) for _ in range(4)]
    until(lambda: refusals(running).keys() & {one.headers["request-id"] for one in known}, within_s=30)

    assert (failed.status_code, stranger.status_code) == (400, 401)
    assert not refusals(running).keys() & {failed.headers["request-id"], stranger.headers["request-id"]}
