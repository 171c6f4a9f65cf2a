"""The first command of a stranger: `manage.py up --demo` on an empty folder."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import anthropic
import httpx
import pytest

from bridgeproject.calling import GatewayClient
from tests.up import Up, up
from translator.checking import Outcome, check_model
from translator.core.model_checks.checks import CHECKS
from translator.core.model_checks.judges import Verdict

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(900)


async def check_all(site: Up) -> list[Outcome]:
    """Ask the demo's model whatever Claude Code may ask of one."""
    async with GatewayClient(site.base_url, site.token) as client:
        return [outcome async for outcome in check_model("claude-sonnet-5-5", client.ask)]


def test_one_command_gives_a_gateway_that_answers(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"

    with up(data_dir) as first, anthropic.Anthropic(base_url=first.base_url, api_key=first.token) as client:
        message = client.messages.create(
            model="claude-sonnet-5-5", max_tokens=200, messages=[{"role": "user", "content": "Hello there"}]
        )
        login = httpx.get(f"{first.base_url}/admin/login/", trust_env=False, timeout=60)
        outcomes = asyncio.run(check_all(first))

    assert message.content[0].type == "text"
    assert "Hello there" in message.content[0].text
    assert "password" in login.text
    assert [outcome.finding.seen for outcome in outcomes if outcome.finding.verdict is not Verdict.PASSED] == []
    assert len(outcomes) == len(CHECKS)

    with up(data_dir) as again, anthropic.Anthropic(base_url=again.base_url, api_key=first.token) as client:
        assert client.messages.count_tokens(
            model="claude-sonnet-5-5", messages=[{"role": "user", "content": "Hello"}]
        ).input_tokens
        assert "password" not in again.text
        # As in another terminal: an upstream on this machine, as Ollama and vLLM are.
        words = ["manage.py", "add_upstream", "local", "http://127.0.0.1:11434/v1", "--key", "none"]
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "bridgeproject.settings",
            "BRIDGE_DATA_DIR": str(data_dir),
        }
        subprocess.run([sys.executable, *words], check=True, cwd=ROOT, env=environment)
