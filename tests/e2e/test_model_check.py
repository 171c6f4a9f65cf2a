"""The check of a model, against models that lack one thing each: by a client, by the command, and by the page."""

import asyncio
import html
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bridgeproject.calling import GatewayClient, Unusable
from tests import processes
from tests.gateway import PATIENCE_S, MakeGateway, RunningGateway, route_words, upstream_words
from tests.upstream import ScriptedUpstream
from translator.checking import Outcome, check_model
from translator.core.model_checks import checks
from translator.core.model_checks.checks import CHECKS
from translator.core.model_checks.conclusion import Readiness, conclude
from translator.core.model_checks.judges import Verdict

PASSED, PARTLY, FAILED = Verdict.PASSED, Verdict.PARTLY, Verdict.FAILED
NO_CALLS = dict.fromkeys(("tool_call", "forced_tool", "two_tools", "long_tool_name"), FAILED)
TITLES = {check.name: check.title for check in CHECKS}
FILL = """
from django.contrib.auth.models import User
from django.test import Client
from keys.models import Upstream, UpstreamModel
Upstream.objects.update(profile_overrides={"reasoning_request": "effort", "reasoning_assumed": True})
for name, more in (("root", {"is_superuser": True}), ("stan", {})):
    client = Client()
    client.force_login(User.objects.create_user(name, is_staff=True, **more))
    User.objects.filter(username=name).update(last_name=client.session.session_key)
UpstreamModel.objects.create(upstream=Upstream.objects.get(name="scripted"), name="told-in-words", tools="emulated")
"""
#: Other upstreams, by the dialect that they speak.
DIALECTS = ("anthropic", "openai_responses")


@pytest.fixture(scope="module")
def running(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    others = [upstream_words(name, upstream_process.base_url, "sk-other", dialect=name) for name in DIALECTS]
    return make_gateway(
        upstream=upstream_process,
        keys=[f"sk-check-{number}" for number in range(4)],
        commands=[
            *others,
            *(route_words(f"{name}-model", name) for name in DIALECTS),
            ["shell", "--verbosity", "0", "-c", FILL],
        ],
    )


@pytest.fixture
def sessions(running: RunningGateway) -> dict[str, str]:
    """Cookies of people who are logged in, by name."""
    rows = running.sql("SELECT username, last_name FROM auth_user WHERE last_name <> ''")
    return {row["username"]: row["last_name"] for row in rows}


async def check_all(running: RunningGateway, alias: str) -> list[Outcome]:
    return await check_all_at(running.base_url, running.token, alias)


async def check_all_at(url: str, token: str, alias: str) -> list[Outcome]:
    async with GatewayClient(url, token) as client:
        return [outcome async for outcome in check_model(alias, client.ask)]


@pytest.mark.parametrize(
    ("script", "verdicts", "readiness"),
    [
        ("plain", {}, Readiness.READY),
        ("plain,nousage", {"usage_whole": FAILED, "usage_stream": FAILED}, Readiness.LIMITED),
        ("deaf=tools", NO_CALLS, Readiness.UNUSABLE),
        ("refuses=tools", {**NO_CALLS, "no_tool": FAILED, "tool_result": FAILED}, Readiness.UNUSABLE),
        ("deaf=choice", {"forced_tool": FAILED, "no_tool": FAILED}, Readiness.READY),
        ("deaf=parallel", {"two_tools": PARTLY}, Readiness.READY),
        ("deaf=limit", {"max_tokens": FAILED}, Readiness.LIMITED),
        ("deaf=thinking", {"thinking": FAILED}, Readiness.READY),
        ("refuses=images", {"image": FAILED}, Readiness.LIMITED),
        ("plain,json", {"stream": PARTLY}, Readiness.LIMITED),
    ],
)
def test_a_model_that_lacks_one_thing_fails_that_and_nothing_else(
    running: RunningGateway, upstream: ScriptedUpstream, script: str, verdicts: dict[str, Verdict], readiness: Readiness
) -> None:
    model = f"lacking-{script}"  # what one of them taught must not help the next
    upstream.script(f"{script},gap=0", model=model)

    outcomes = asyncio.run(check_all(running, model))

    found = {outcome.check.name: outcome.finding.verdict for outcome in outcomes}
    assert {name: verdict for name, verdict in found.items() if verdict is not PASSED} == verdicts
    assert conclude(found).readiness is readiness
    for outcome in outcomes:
        if outcome.finding.verdict is not PASSED:
            assert outcome.finding.advice == outcome.check.advice
    assert {outcome.heard.served_by for outcome in outcomes} == {f"scripted/{model}"}


@pytest.mark.parametrize("alias", [*(f"{name}-model" for name in DIALECTS), "told-in-words"])
def test_a_good_model_is_ready_whatever_it_speaks(
    running: RunningGateway, upstream: ScriptedUpstream, alias: str
) -> None:
    upstream.script("plain,gap=0")

    outcomes = asyncio.run(check_all(running, alias))

    assert {
        outcome.check.name: outcome.finding.seen for outcome in outcomes if outcome.finding.verdict is not PASSED
    } == {}


def test_each_check_is_a_call_like_every_other(running: RunningGateway, upstream: ScriptedUpstream) -> None:
    outcomes = asyncio.run(check_all(running, "counted"))

    records = {record["request_id"]: record for record in running.settled() if record["alias"] == "counted"}
    assert set(records) == {outcome.heard.request_id for outcome in outcomes}
    assert len(records) == len(CHECKS) == len(upstream.attempts())
    assert {record["user_name"] for record in records.values()} == {"alice"}
    assert {record["client_name"] for record in records.values()} == {"bridge-model-check"}


def test_an_error_of_the_gateway_is_told(running: RunningGateway, upstream: ScriptedUpstream) -> None:
    upstream.script("status=404", model="missing")

    outcomes = asyncio.run(check_all(running, "missing"))

    for outcome in outcomes:
        assert outcome.finding.verdict is FAILED
        assert outcome.finding.seen.startswith("404 not_found_error")
        assert outcome.finding.advice == checks.ADVICE_BY_STATUS[404]


async def test_what_is_no_gateway_is_said_before_anything_is_asked(running: RunningGateway) -> None:
    async with GatewayClient("http://127.0.0.1:1", "brg_x") as client:
        with pytest.raises(Unusable, match="no gateway answers"):
            await client.expect_alias("m")
        heard = await client.ask(CHECKS[0], b"{}")
    assert (heard.status, heard.error) == (0, "the connection to the gateway broke: ConnectError")
    async with GatewayClient(running.base_url, "brg_x") as client:
        with pytest.raises(Unusable, match="401 authentication_error"):
            await client.expect_alias("m")


async def test_an_answer_that_never_ends_is_left(upstream: ScriptedUpstream) -> None:
    upstream.script("silent,frame=2")

    async with GatewayClient(upstream.base_url.removesuffix("/v1"), "brg_x", deadline_s=0.5) as client:
        heard = await client.ask(CHECKS[1], b'{"model": "m", "stream": true}')

    assert (heard.status, heard.error) == (0, "no end after 0 seconds")


def test_counts_of_which_nobody_tells_are_passed_partly(upstream: ScriptedUpstream) -> None:
    """The upstream itself speaks the Messages API too, and keeps no records."""
    outcomes = asyncio.run(check_all_at(upstream.base_url.removesuffix("/v1"), "brg_x", "m"))

    found = {outcome.check.name: outcome.finding.verdict for outcome in outcomes}
    assert found == {check.name: PASSED for check in CHECKS} | {"usage_whole": PARTLY, "usage_stream": PARTLY}


def command(running: RunningGateway, *words: str, token: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run `check_model` as an operator does."""
    environment = os.environ | running.environment | ({"BRIDGE_TOKEN": token} if token is not None else {})
    line = [sys.executable, "manage.py", "check_model", *words]
    return subprocess.run(
        line, cwd=processes.ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_the_command_tells_each_check_and_the_conclusion(running: RunningGateway, upstream: ScriptedUpstream) -> None:
    upstream.script("refuses=images", model="blind")

    done = command(running, "blind", "--url", running.base_url, token=running.token)

    first, *told, last = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert first == f"{len(CHECKS)} requests to blind, 3 at once"
    assert len(told) == len(CHECKS)
    (failed,) = [line for line in told if not line.startswith("passed")]
    assert re.fullmatch(r"failed  Sees an image: it said .*image omitted.* Set \"takes images\" .*", failed)
    assert last == "blind is usable, with limits (not passed: Sees an image)"
    assert running.token not in done.stdout


def test_the_command_fails_where_claude_code_could_not_work(
    running: RunningGateway, upstream: ScriptedUpstream
) -> None:
    upstream.script("deaf=tools", model="toolless")

    done = command(running, "toolless", "--url", f"{running.base_url}/", "--json", token=running.token)

    *told, last = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert {one["check"]: one["verdict"] for one in told} == {check.name: "passed" for check in CHECKS} | NO_CALLS
    assert last == {"readiness": "not usable", "because": ["tool_call"]}
    assert all(one["request_id"].startswith("req_") for one in told)


@pytest.mark.parametrize(
    ("words", "token", "says"),
    [
        ([], "brg_x", "the following arguments are required: alias"),
        (["m"], None, "put a client token into the environment variable BRIDGE_TOKEN"),
        (["m", "--token-env", "NO_SUCH"], "brg_x", "environment variable NO_SUCH"),
        (["m"], "brg_wrong", "401 authentication_error"),
        (["m", "--url", "http://127.0.0.1:1"], "brg_x", "no gateway answers there: ConnectError"),
        (["m", "--url", "nonsense"], "brg_x", "no gateway answers there"),
    ],
)
def test_bad_use_of_the_command_is_told_apart(
    running: RunningGateway, words: list[str], token: str | None, says: str
) -> None:
    at = [] if "--url" in words else ["--url", running.base_url]

    done = command(running, *words, *at, token=token)

    assert done.returncode == 2
    assert says in done.stderr
    assert token is None or token not in done.stdout + done.stderr


class Visitor:
    """Somebody with the page open."""

    def __init__(self, running: RunningGateway, session: str) -> None:
        self.http = httpx.Client(base_url=running.base_url, cookies={"sessionid": session}, trust_env=False, timeout=60)
        page = self.http.get("/admin/model-check/")
        assert page.status_code == 200
        self.page = page.text
        (self.csrf,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)) or {""}

    def post(self, path: str = "", **words: str) -> httpx.Response:
        words["csrfmiddlewaretoken"] = self.csrf
        return self.http.post(f"/admin/model-check/{path}", data=words)


@pytest.fixture
def visitor(running: RunningGateway, sessions: dict[str, str]) -> Iterator[Visitor]:
    one = Visitor(running, sessions["root"])
    yield one
    one.http.close()


def rows_of(page: str) -> dict[str, str]:
    """Give the checks of a page and how they ended."""
    return dict(re.findall(r'data-check="(\w+)" data-verdict="(\w+)"', page))


def test_the_page_makes_all_checks_without_javascript(
    running: RunningGateway, upstream: ScriptedUpstream, visitor: Visitor
) -> None:
    upstream.script("deaf=tools", model="page-toolless")
    assert rows_of(visitor.page) == {}
    assert f"{len(CHECKS)} small requests are made" in visitor.page

    answer = visitor.post(model="page-toolless")

    page = html.unescape(answer.text)
    assert answer.headers["cache-control"] == "no-store"
    assert rows_of(page) == {check.name: "passed" for check in CHECKS} | NO_CALLS
    assert "It is not usable" in page
    assert checks.EMULATE in page
    assert "/admin/keys/upstreammodel/add/?upstream=1&name=page-toolless" in page
    assert "sk-check" not in page
    records = [record for record in running.settled() if record["alias"] == "page-toolless"]
    assert {record["user_name"] for record in records} == {"root"}
    assert {record["client_name"] for record in records} == {"model check"}
    assert all(f"/admin/usage/requests/{record['request_id']}/" in page for record in records)
    assert visitor.http.get(f"/admin/usage/requests/{records[0]['request_id']}/").status_code == 200


def test_the_page_makes_one_check_and_concludes_for_its_script(
    running: RunningGateway, upstream: ScriptedUpstream, visitor: Visitor
) -> None:
    upstream.script("refuses=images", model="page-blind")

    one = visitor.post("one/", model="page-blind", check="image")
    verdicts = {f"verdict-{check.name}": "passed" for check in CHECKS} | {"verdict-image": "failed"}
    concluded = visitor.post("conclusion/", model="page-blind", **verdicts)
    nonsense = visitor.post("conclusion/", model="page-blind", **(verdicts | {"verdict-whole": "<b>"}))

    assert rows_of(one.text) == {"image": "failed"}
    assert "<html" not in one.text
    assert len(upstream.attempts()) == 2, "refused, and answered without the image"
    assert "It is usable, with limits" in concluded.text
    assert TITLES["image"] in concluded.text
    assert "It is not usable" in nonsense.text
    assert "<b>" not in nonsense.text


def test_a_credential_that_an_upstream_repeats_is_not_shown(visitor: Visitor, upstream: ScriptedUpstream) -> None:
    upstream.script("text=your+key+is+sk-other+indeed")

    one = visitor.post("one/", model="anthropic-model", check="whole")

    assert "your key is ••• indeed" in one.text
    assert "sk-other" not in one.text


def test_a_name_that_no_route_takes_is_told_with_what_helps(running: RunningGateway, visitor: Visitor) -> None:
    running.execute("UPDATE keys_route SET enabled = false WHERE alias = '*'")
    try:
        until = time.monotonic() + 60
        while "404 not_found_error" not in (page := html.unescape(visitor.post("one/", model="x", check="image").text)):
            assert time.monotonic() < until, page
        concluded = visitor.post("conclusion/", model="x")
    finally:
        running.execute("UPDATE keys_route SET enabled = true WHERE alias = '*'")
        running.wait_until_known()

    assert checks.ADVICE_BY_STATUS[404] in page
    assert "It is not usable" in concluded.text
    assert "is set here" not in concluded.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("one/", {"model": "m", "check": "nonsense"}),
        ("one/", {"check": "whole"}),
        ("conclusion/", {}),
    ],
)
def test_the_page_refuses_what_makes_no_sense(visitor: Visitor, path: str, words: dict[str, str]) -> None:
    assert visitor.post(path, **words).status_code == 400


def test_a_post_without_a_model_asks_nothing(visitor: Visitor, upstream: ScriptedUpstream) -> None:
    assert rows_of(visitor.post().text) == {}
    assert upstream.attempts() == []


@pytest.mark.parametrize("path", ["", "one/", "conclusion/"])
def test_nobody_else_may_ask(
    running: RunningGateway, upstream: ScriptedUpstream, visitor: Visitor, sessions: dict[str, str], path: str
) -> None:
    words: dict[str, Any] = {"model": "m", "check": "whole"}
    visitor.csrf = "x" * 64
    assert visitor.post(path, **words).status_code == 403, "a foreign site's form"

    for cookies, status in (({"sessionid": sessions["stan"]}, 403), ({}, 403)):
        with httpx.Client(base_url=running.base_url, cookies=cookies, trust_env=False, timeout=60) as client:
            assert client.post(f"/admin/model-check/{path}", data=words).status_code == status
            assert client.get(f"/admin/model-check/{path}").status_code == (403 if cookies else 302)
    assert upstream.attempts() == []
