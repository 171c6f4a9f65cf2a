"""What clients call their requests: stored, found, exported, and indexed without holding up writers."""

import re
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.e2e.client import question
from tests.gateway import RunningGateway
from tests.usage.people import a_lead, as_, settle
from tests.usage.waiting import PATIENCE_S
from usage.models import UsageRecord
from usage.reports import RECORD_COLUMNS

Query = Callable[..., list[dict[str, Any]]]
OURS = re.compile(r"req_[0-9A-Za-z]{24}")


def sent_raw(gateway: RunningGateway, *headers: bytes) -> bytes:
    """Send headers that no proper client would, and give the whole answer."""
    url = httpx.URL(gateway.base_url)
    body = httpx.Request("POST", url, json=question("mock-n1-d0")).content
    head = [
        b"POST /v1/messages HTTP/1.1", b"host: x", b"connection: close", b"content-type: application/json",
        b"x-api-key: " + gateway.token.encode(), b"content-length: %d" % len(body), *headers,
    ]  # fmt: skip
    with socket.create_connection((url.host, url.port or 80), timeout=60) as connection:
        answer = b""
        with suppress(ConnectionError):  # it needn't read all that is sent
            connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        with suppress(ConnectionError):
            while chunk := connection.recv(65536):
                answer += chunk
        return answer


def attempts_of(gateway: RunningGateway, request_id: str) -> list[dict[str, Any]]:
    """Give the records of a request; on a slow machine its first attempt may come to nothing."""
    return gateway.sql("SELECT * FROM usage_usagerecord WHERE request_id = %s", request_id)


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ([b"x-client-request-id: of-the-client"], "of-the-client"),
        ([b"x-request-id: of-a-proxy"], "of-a-proxy"),
        ([b"x-request-id: of-a-proxy", b"x-client-request-id: of-the-client"], "of-the-client"),
        ([b"x-client-request-id: " + b"long" * 1000], "long" * 32),
        ([b"x-client-request-id: caf\xc3\xa9"], ""),
        ([b"x-client-request-id: a\tb"], ""),
        ([b"x-client-request-id: a\r\nset-cookie: b=c"], "a"),
        ([], ""),
    ],
    ids=["client", "proxy", "both", "long", "not ascii", "tab", "line end", "none"],
)
def test_a_clients_id_is_kept_beside_ours(shared: RunningGateway, headers: list[bytes], kept: str) -> None:
    answer = sent_raw(shared, *headers)

    head = answer.partition(b"\r\n\r\n")[0].decode("latin-1").lower()
    [ours] = OURS.findall(answer.partition(b"\r\n\r\n")[0].decode("latin-1"))
    assert head.startswith("http/1.1 200")
    assert "set-cookie" not in head
    assert {attempt["client_request_id"] for attempt in attempts_of(shared, ours)} == {kept}


@pytest.mark.parametrize(
    "value", [b"\x1b[31mred", b"a\x00b", b"x" * 2**20], ids=["an escape", "a zero", "a megabyte"]
)  # fmt: skip
def test_a_value_that_no_header_has_is_no_more_than_a_line_of_the_log(shared: RunningGateway, value: bytes) -> None:
    shared.settled()  # no call that an earlier test left writes its line meanwhile
    before = shared.log().count("\n")

    answer = sent_raw(shared, b"x-client-request-id: " + value)

    assert answer == b"" or answer.split()[1] in (b"200", b"400")
    assert value[:8] not in answer
    logged = shared.log().splitlines()[before:]
    assert len(logged) <= 1
    assert "\x1b" not in "".join(logged)
    assert shared.sql("SELECT * FROM usage_usagerecord WHERE client_request_id ~ '[^ -~]'") == []


def test_a_token_finds_its_request_by_either_id(shared: RunningGateway) -> None:
    headers = {"x-api-key": shared.token, "x-client-request-id": "asked-twice"}
    with httpx.Client(base_url=shared.base_url, headers=headers, trust_env=False, timeout=PATIENCE_S) as client:
        first, last = (client.post("/v1/messages", json=question("mock-n1-d0")).headers["request-id"] for _ in range(2))
        shared.settled()  # what is told of a request changes when it is settled
        told = {name: client.get(f"/usage/api/requests/{name}").json() for name in (first, last, "asked-twice")}

    assert (told[first]["request_id"], told[first]["client_request_id"]) == (first, "asked-twice")
    assert told["asked-twice"] == told[last]
    assert len(told[last]["attempts"]) == len(attempts_of(shared, last))


def test_the_pages_and_files_know_the_clients_id(dsn: str, tmp_path: Path) -> None:
    named = {"request_id": "req_1", "client_request_id": "theirs-7"}
    settle(dsn, tmp_path, (named, {}), ({"request_id": "req_2"}, {}))
    root = as_(User.objects.create_superuser("root"))
    found = root.get(reverse("admin:usage_usagerecord_changelist"), {"q": "theirs-7"})
    page = root.get("/admin/usage/requests/req_1/")
    led = root.get("/admin/usage/requests/theirs-7/")
    records = root.get("/usage/api/records").json()["records"]

    assert [record.request_id for record in found.context["cl"].result_list] == ["req_1"]
    assert "theirs-7" in page.content.decode()
    assert (led.status_code, led["location"]) == (302, "/admin/usage/requests/req_1/")
    assert {record["request_id"]: record["client_request_id"] for record in records} == {
        "req_1": "theirs-7",
        "req_2": "",
    }
    assert "client_request_id" in RECORD_COLUMNS  # of the files too


def test_a_clients_id_leads_nobody_to_requests_of_others(dsn: str, tmp_path: Path) -> None:
    settle(dsn, tmp_path, ({"request_id": "req_1", "client_request_id": "theirs-7", "team_id": 999_999}, {}))
    lead: Client = as_(a_lead("leo", "others"))

    for name in ("theirs-7", "req_1"):
        assert lead.get(f"/admin/usage/requests/{name}/").status_code == 404


def test_workers_of_the_version_before_leave_the_clients_id_out(dsn: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO usage_usagerecord (id, request_id, attempt, worker, user_name, team_name, token_name, alias,"
            " upstream_name, upstream_model, credential_label, client_name, client_version, session_id, stream, state,"
            " source, error_type, stop_reason, notes, input_tokens, cache_read_tokens, cache_write_tokens,"
            " output_tokens, thinking_tokens) VALUES ('01900000-0000-7000-8000-000000000001', 'req_1', 1, 'w', '', '',"
            " '', '', '', '', '', '', '', '', false, 'open', 'unknown', '', '', '{}', 0, 0, 0, 0, 0)"
        )

    assert UsageRecord.objects.get().client_request_id == ""


def test_a_clients_id_is_found_by_its_index(dsn: str, query: Query) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        plan = UsageRecord.objects.filter(client_request_id="x").order_by("-id")[:1].explain()
        cursor.execute("RESET enable_seqscan")

    assert "Index Cond: ((client_request_id)::text = 'x'::text)" in plan
