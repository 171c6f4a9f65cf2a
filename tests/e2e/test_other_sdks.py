"""SDKs that many still use, or that are written in another language; each in an environment of its own."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

CLIENTS = Path(__file__).parent / "clients"
OLD_PYTHON_SDK = "anthropic==0.75.0"
TYPESCRIPT_SDK = "@anthropic-ai/sdk@1.14.0"

pytestmark = pytest.mark.timeout(300)


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "PYTHON"))}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240, check=False)


def install(*words: str, cwd: Path | None = None) -> None:
    """Install a client, or skip the test where that can't be had."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    done = run(*words, cwd=cwd)
    if done.returncode != 0:
        pytest.skip(f"{words[-1]} can't be installed: {done.stderr.strip()[-300:]}")


def check_conversation(
    done: subprocess.CompletedProcess[str], shared: RunningGateway, upstream: ScriptedUpstream
) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert "“Hello”" in seen["whole"]
    assert seen["streamed"] == seen["whole"]
    assert seen["output_tokens"][0] == seen["output_tokens"][1] > 10
    assert seen["stop_reasons"] == ["end_turn", "end_turn"]
    assert seen["call"] == ["get_weather", {"city": "Paris"}]
    assert "18 degrees" in seen["final"]
    assert seen["error"] == "rate_limit_error"
    assert_ledger_adds_up(shared, upstream)
    return seen


def test_the_python_sdk_of_last_year(shared: RunningGateway, upstream: ScriptedUpstream) -> None:
    isolated = ["uv", "run", "--no-project", "--isolated", "--with", OLD_PYTHON_SDK, "python"]
    install(*isolated, "-c", "import anthropic")

    done = run(*isolated, str(CLIENTS / "talk.py"), shared.base_url, shared.token)

    seen = check_conversation(done, shared, upstream)
    assert seen["version"] == OLD_PYTHON_SDK.partition("==")[2]


def test_the_typescript_sdk(shared: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    shutil.copy(CLIENTS / "talk.mjs", tmp_path)
    install("npm", "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), TYPESCRIPT_SDK)

    done = run("node", "talk.mjs", shared.base_url, shared.token, cwd=tmp_path)

    seen = check_conversation(done, shared, upstream)
    assert seen["version"] == TYPESCRIPT_SDK.rpartition("@")[2]
