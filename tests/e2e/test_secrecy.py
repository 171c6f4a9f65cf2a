"""Prompts, answers and secrets are in no log and in no table, also where everything is logged and everything fails."""

import json
import re
import time
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.e2e.client import TIMEOUT_S, question
from tests.e2e.test_endings import no_database
from tests.gateway import IMPATIENT, MakeGateway, RunningGateway, route_words, upstream_words
from tests.upstream import ScriptedUpstream

PROMPT = "canary-of-the-prompt"
KEY = "sk-canary-of-the-key-0001"
FOREIGN = "sk-canary-of-another-key-0002"
#: Good answers, answers that break, and refusals of an upstream that says our key aloud.
MODELS = [
    "mock-n3-d0",
    "script/cut,frame=3",
    "script/html",
    "script/malformed,frame=2",
    "script/status=400",
    "script/status=500",
    "script/silent",
]
LOG_IN = """
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("watcher"))
print(client.cookies["sessionid"].value)
"""


@pytest.fixture(scope="module")
def loud(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(
        upstream=upstream_process,
        keys=[KEY],
        commands=[
            upstream_words("impatient", upstream_process.base_url, KEY),
            route_words("script/silent", "impatient", "script/silent"),
        ],
        prepare=lambda made: made.hurry("impatient", **IMPATIENT),
        BRIDGE_LOG_LEVEL="DEBUG",
        PYTHONASYNCIODEBUG="1",
    )


def post(gateway: RunningGateway, path: str, body: Any, **headers: str) -> int:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"{gateway.base_url}{path}"
    sent = {"x-api-key": gateway.token} | headers
    return httpx.post(url, content=content, headers=sent, trust_env=False, timeout=TIMEOUT_S).status_code


def hang_up(gateway: RunningGateway) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{gateway.base_url}/v1/messages",
            json=question("script/wait=60s", PROMPT),
            headers={"x-api-key": gateway.token},
            timeout=0.3,
            trust_env=False,
        )


def in_tables(gateway: RunningGateway, words: list[str]) -> list[str]:
    """Name the tables that hold one of the words."""
    tables = gateway.sql("SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'")
    return [
        f"{table['name']}: {word}"
        for table in tables
        for word in words
        if gateway.sql(f"SELECT 1 FROM {table['name']} t WHERE position(%s in t::text) > 0 LIMIT 1", word)  # noqa: S608
    ]


@pytest.mark.timeout(600)
def test_nothing_secret_is_logged_or_stored(loud: RunningGateway, upstream: ScriptedUpstream) -> None:
    for model in MODELS:
        for stream in (True, False):
            post(loud, "/v1/messages", question(model, PROMPT, stream=stream))
    upstream.script(raw={"status": 401, "body": json.dumps({"error": {"message": f"wrong key {KEY}"}})})
    post(loud, "/v1/messages", question("mock-n1-d0", PROMPT))
    upstream.reset()
    post(loud, "/v1/messages/count_tokens", question("mock-n1-d0", PROMPT))
    post(loud, "/v1/chat/completions", question("mock-n1-d0", PROMPT))
    post(loud, "/v1/messages", b'{"model": "m", "' + PROMPT.encode())
    post(loud, "/v1/messages", {"model": "m", "max_tokens": 1, "messages": [{"role": PROMPT, "content": PROMPT}]})
    assert post(loud, "/v1/messages", question("m", PROMPT), **{"x-api-key": FOREIGN}) == 401
    assert post(loud, "/v1/messages", question("m", PROMPT), authorization=f"Bearer {FOREIGN}") != 401
    hang_up(loud)
    with no_database(loud):
        assert post(loud, "/v1/messages", question("mock-n1-d0", PROMPT)) == 503
    loud.wait_ready()
    session = loud.command("shell", "--verbosity", "0", "-c", LOG_IN)
    socket = f"{loud.base_url.replace('http', 'ws', 1)}/ws/live/"
    with connect(
        socket,
        proxy=None,
        origin=Origin(loud.base_url),
        additional_headers={"Cookie": f"sessionid={session}"},
        open_timeout=60,
    ) as live:
        live.recv(timeout=60)
    time.sleep(2)  # what was refused last is written once a second

    (key_ring,) = (loud.data_dir / "encryption_keys").read_text().strip().split(",")
    secrets = [KEY, FOREIGN, loud.token, session, key_ring.partition(":")[2]]
    log = loud.log()
    spool = "".join(path.read_text() for path in (loud.data_dir / "spool").glob("*"))
    assert re.search(r" DEBUG ", log), "it is loud"
    assert not [word for word in (PROMPT, *secrets) if word in log or word in spool]
    assert in_tables(loud, [PROMPT, KEY, KEY[4:16], FOREIGN, loud.token, loud.token[8:20]]) == []
