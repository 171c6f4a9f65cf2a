"""Secrets of ours in the text of requests: told to those concerned, and kept nowhere."""

import json
import time
from typing import Any

import httpx
import pytest

from keys.tokens import new_token
from tests.e2e.client import TIMEOUT_S, question
from tests.e2e.test_secrecy import in_tables
from tests.gateway import MakeGateway, RunningGateway
from tests.keys.processes import until
from tests.upstream import ScriptedUpstream

KEY = "sk-canary-of-a-leaked-key-000042"
PLACEHOLDER = "sk-none"
MODEL = "mock-n1-d0"


@pytest.fixture(scope="module")
def loud(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(upstream=upstream_process, keys=[KEY, PLACEHOLDER], BRIDGE_LOG_LEVEL="DEBUG")


@pytest.fixture(scope="module")
def issued(loud: RunningGateway) -> list[str]:
    """Tokens of Bob and Carol, made by one process; the worker knows them."""
    tokens = loud.commands(["issue_token", "bob"], ["issue_token", "carol"]).splitlines()[-2:]
    loud.wait_until_known()
    return tokens


@pytest.fixture
def bobs(issued: list[str]) -> str:
    return issued[0]


@pytest.fixture
def carols(issued: list[str]) -> str:
    return issued[1]


def post(gateway: RunningGateway, body: Any, path: str = "/v1/messages") -> str:
    """Send what must be answered; return the request's id."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"x-api-key": gateway.token}
    answer = httpx.post(
        f"{gateway.base_url}{path}", content=content, headers=headers, trust_env=False, timeout=TIMEOUT_S
    )
    assert answer.status_code == 200, answer.text
    return answer.headers["request-id"]


def with_tool_result(text: str) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": ".env"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text}
    messages = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    first = question(MODEL)
    tool = {"name": "read_file", "input_schema": {"type": "object"}}
    return first | {"messages": [*first["messages"], *messages], "tools": [tool]}


def notes_of(gateway: RunningGateway, request_id: str) -> list[str]:
    records = {row["request_id"]: row["notes"] for row in gateway.settled()}
    return list(records[request_id])


def sighting(gateway: RunningGateway, request_id: str) -> dict[str, Any]:
    """Wait until a request is the last in which a secret was seen, and tell of it."""
    rows = until(
        lambda: gateway.sql(
            "SELECT s.*, u.username, t.name AS token, c.label FROM keys_sighting s LEFT JOIN auth_user u ON u.id = s.user_id"
            " LEFT JOIN keys_clienttoken t ON s.kind = 'token' AND t.id = s.secret_id"
            " LEFT JOIN keys_credential c ON s.kind = 'credential' AND c.id = s.secret_id WHERE s.request_id = %s",
            request_id,
        ),
        within_s=60,
    )
    (row,) = rows
    return row


def test_a_token_in_a_tool_result_is_noticed_and_the_request_goes_its_way(
    loud: RunningGateway, bobs: str, upstream: ScriptedUpstream
) -> None:
    request_id = post(loud, with_tool_result(f"BRIDGE_TOKEN={bobs}\nPORT=8000\n"))

    assert notes_of(loud, request_id) == ["token_in_text"]
    row = sighting(loud, request_id)
    assert (row["kind"], row["username"]) == ("token", "alice")
    owner = loud.sql(
        "SELECT u.username FROM keys_clienttoken t JOIN auth_user u ON u.id = t.user_id WHERE t.id = %s",
        row["secret_id"],
    )
    assert owner == [{"username": "bob"}]
    assert bobs in json.dumps(upstream.requests()[-1]["body"]), "it may be needed"


def test_a_credential_in_a_prompt_of_the_other_dialect_is_noticed(
    loud: RunningGateway, upstream: ScriptedUpstream
) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": f"curl -H 'Authorization: Bearer {KEY}'"}]}
    request_id = post(loud, body, "/v1/chat/completions")

    assert notes_of(loud, request_id) == ["credential_in_text"]
    row = sighting(loud, request_id)
    assert (row["kind"], row["label"], row["last_four"]) == ("credential", "key-1", "0042")


def test_so_is_one_that_is_only_counted_and_one_in_a_large_body(
    loud: RunningGateway, bobs: str, upstream: ScriptedUpstream
) -> None:
    counted = post(loud, question(MODEL, f"use {loud.token}"), "/v1/messages/count_tokens")
    assert sighting(loud, counted)["username"] == "alice"

    large = post(loud, question(MODEL, f"{'word ' * 80_000} {bobs}"))
    assert sighting(loud, large)["kind"] == "token"


def test_nothing_else_is_noticed(loud: RunningGateway, bobs: str, carols: str, upstream: ScriptedUpstream) -> None:
    loud.execute(
        "UPDATE keys_clienttoken t SET revoked_at = now() FROM auth_user u WHERE u.id = t.user_id AND username = 'carol'"
    )
    loud.wait_until_known()
    before = loud.sql("SELECT id, times FROM keys_sighting ORDER BY id")
    harmless = [
        f"{bobs[:20]}\n{bobs[20:]} {KEY[:16]} {KEY[16:]}",
        f"{new_token()} {carols} {PLACEHOLDER}",
        f"brg_{'x' * 39}",
    ]
    halves = [{"type": "text", "text": bobs[:21]}, {"type": "text", "text": bobs[21:]}]

    ids = [post(loud, question(MODEL, text)) for text in harmless]
    ids.append(post(loud, question(MODEL) | {"messages": [{"role": "user", "content": halves}]}))

    assert [notes_of(loud, one) for one in ids] == [[]] * len(ids)
    time.sleep(1.5)  # sightings are written once a second
    assert loud.sql("SELECT id, times FROM keys_sighting ORDER BY id") == before


def test_the_secrets_are_kept_nowhere(loud: RunningGateway, bobs: str, upstream: ScriptedUpstream) -> None:
    request_id = post(loud, with_tool_result(f"{bobs} {loud.token} {KEY}"))
    assert notes_of(loud, request_id) == ["credential_in_text", "token_in_text"]
    until(lambda: loud.sql("SELECT FROM keys_sighting WHERE request_id = %s", request_id), within_s=60)
    until(lambda: loud.sql("SELECT FROM keys_sighting WHERE told_at IS NOT NULL"), within_s=60)
    until(lambda: "seen in a request" in loud.log() or "seen in requests" in loud.log(), within_s=60)

    secrets = [KEY, KEY[4:16], bobs, bobs[8:20], loud.token, loud.token[8:20]]
    log = loud.log()
    assert " INFO " in log, "it is loud"
    assert not [secret for secret in secrets if secret in log]
    assert in_tables(loud, secrets) == []
