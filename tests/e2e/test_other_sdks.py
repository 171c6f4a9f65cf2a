"""SDKs that many still use, or that are written in another language; each in an environment of its own."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.packages import CLIENTS, OLD_PYTHON_SDK, TYPESCRIPT_SDK, node_with, python_with, run
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

pytestmark = pytest.mark.timeout(900)


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
    words = python_with(OLD_PYTHON_SDK, module="anthropic")

    done = run(*words, str(CLIENTS / "talk.py"), shared.base_url, shared.token)

    seen = check_conversation(done, shared, upstream)
    assert seen["version"] == OLD_PYTHON_SDK.partition("==")[2]


def test_the_typescript_sdk(shared: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path) -> None:
    words = node_with(tmp_path, "talk.mjs", TYPESCRIPT_SDK)

    done = run(*words, shared.base_url, shared.token, cwd=tmp_path)

    seen = check_conversation(done, shared, upstream)
    assert seen["version"] == TYPESCRIPT_SDK.rpartition("@")[2]
