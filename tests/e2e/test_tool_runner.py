"""The TypeScript SDK's tool runner, which would leave the history to the server."""

import json
from pathlib import Path

import pytest

from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.packages import TYPESCRIPT_SDK, node_with, run
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROMPT = (
    "How warm is it? "
    '<<TOOL {"name": "get_weather", "input": {"city": "Paris"}}>> '
    '<<TOOL {"name": "get_weather", "input": {"city": "Oslo"}}>> <<FINAL both are warm>>'
)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    folder = tmp_path_factory.mktemp("runner")
    return node_with(folder, "run_tools.mjs", TYPESCRIPT_SDK), folder


@pytest.mark.parametrize("mode", ["whole", "stream"])
def test_the_tool_runner_goes_on_without_a_thread(
    runner: tuple[list[str], Path], shared: RunningGateway, upstream: ScriptedUpstream, mode: str
) -> None:
    words, folder = runner

    done = run(*words, shared.base_url, shared.token, PROMPT, mode, cwd=folder)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["cities"], seen["final"]) == (["Paris", "Oslo"], "both are warm")
    assert [(call["thread"], call["status"]) for call in seen["asked"]] == [("create", 400), (None, 200), (None, 200)]
    roles = [message["role"] for message in upstream.requests()[-1]["body"]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert_ledger_adds_up(shared, upstream)
