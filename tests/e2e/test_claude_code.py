"""Claude Code itself against the gateway: it runs a tool, and the file that the tool wrote is there."""

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

#: The last version that is plain JavaScript: a third of the size of those that bring their own runtime.
PACKAGE = "@anthropic-ai/claude-code@2.0.77"
#: Nobody listens there: whatever isn't meant for the gateway must not leave the machine.
DEAD_PROXY = "http://127.0.0.1:9"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, installed; the tests are skipped where it can't be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("claude-code")
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"{PACKAGE} can't be installed: {done.stderr.strip()[-300:]}")
    return folder / "node_modules" / ".bin" / "claude"


def run(claude: Path, gateway: RunningGateway, folder: Path, prompt: str, *options: str) -> list[dict[str, Any]]:
    """Let it work on one prompt; return its lines."""
    home, project = folder / "home", folder / "project"
    home.mkdir()
    project.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "ANTHROPIC_BASE_URL": gateway.base_url,
        "ANTHROPIC_AUTH_TOKEN": gateway.token,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1",
        "HTTP_PROXY": DEAD_PROXY,
        "HTTPS_PROXY": DEAD_PROXY,
    }
    words = [
        str(claude),
        "-p",
        prompt,
        "--output-format",
        "stream-json",
        "--verbose",
        "--allowedTools",
        "Bash",
        *options,
    ]
    done = subprocess.run(
        words,
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, (done.stderr[-1000:], lines[-2:])
    return lines


def bash(command: str) -> str:
    return f"<<TOOL {json.dumps({'name': 'Bash', 'input': {'command': command, 'description': 'write'}})}>>"


def test_it_writes_a_file_through_a_tool(
    claude: Path, shared: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    word = uuid.uuid4().hex
    prompt = f"Write a file. {bash(f'printf %s {word} > out.txt')} <<FINAL done {word}>>"

    lines = run(claude, shared, tmp_path, prompt, "--max-turns", "4")

    assert (tmp_path / "project" / "out.txt").read_text() == word
    result = next(line for line in lines if line["type"] == "result")
    assert (result["is_error"], result["result"]) == (False, f"done {word}")
    records = assert_ledger_adds_up(shared, upstream)
    assert {record["client_name"] for record in records} == {"claude-cli"}
    assert all(record["session_id"] for record in records)


def test_it_runs_two_tools_of_one_answer(
    claude: Path, shared: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    prompt = f"Write two files. {bash('printf 1 > one.txt')} {bash('printf 2 > two.txt')} <<FINAL both>>"

    run(claude, shared, tmp_path, prompt, "--max-turns", "4")

    assert [(tmp_path / "project" / name).read_text() for name in ("one.txt", "two.txt")] == ["1", "2"]
    assert_ledger_adds_up(shared, upstream)


def test_it_goes_on_after_a_stream_that_broke(
    claude: Path, shared: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    upstream.script("cut,frame=2", model="claude-flaky", times=1)
    prompt = "Say something. <<FINAL I am still here>>"

    lines = run(claude, shared, tmp_path, prompt, "--model", "claude-flaky", "--max-turns", "2")

    assert next(line for line in lines if line["type"] == "result")["result"] == "I am still here"
    assert_ledger_adds_up(shared, upstream)
