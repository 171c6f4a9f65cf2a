"""The first command of a stranger: `manage.py up --demo` on an empty folder."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anthropic
import httpx
import psutil  # type: ignore[import-untyped]  # it brings no types
import pytest

from tests import processes

pytestmark = pytest.mark.timeout(180)


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """What `up` printed, and the process."""

    text: str
    running: processes.Running

    @property
    def base_url(self) -> str:
        return str(re.findall(r"ANTHROPIC_BASE_URL=(\S+)", self.text)[0])

    @property
    def token(self) -> str:
        return str(re.findall(r"ANTHROPIC_AUTH_TOKEN=(\S+)", self.text)[0])


@contextmanager
def up(data_dir: Path) -> Iterator[Up]:
    """Run `up --demo` until the block ends, then stop it as Ctrl-C does."""
    arguments = ["manage.py", "up", "--demo", "--port", "0", "--data-dir", str(data_dir)]
    environment = {"DJANGO_SETTINGS_MODULE": "bridgeproject.settings", "BRIDGE_DATABASE_URL": "", "BRIDGE_DATA_DIR": ""}
    running = processes.start(arguments, log=data_dir.parent / "up.log", environment=environment, until="Ctrl-C")
    try:
        yield Up(text=running.text, running=running)
    finally:
        children = psutil.Process(running.pid).children(recursive=True)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(30) == 0
        running.stop()
        _, alive = psutil.wait_procs(children, timeout=5)
        assert alive == [], [one.cmdline() for one in alive]


def test_one_command_gives_a_gateway_that_answers(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"

    with up(data_dir) as first, anthropic.Anthropic(base_url=first.base_url, api_key=first.token) as client:
        message = client.messages.create(
            model="claude-sonnet-5-5", max_tokens=200, messages=[{"role": "user", "content": "Hello there"}]
        )
        login = httpx.get(f"{first.base_url}/admin/login/", trust_env=False)

    assert message.content[0].type == "text"
    assert "Hello there" in message.content[0].text
    assert "password" in login.text

    with up(data_dir) as again, anthropic.Anthropic(base_url=again.base_url, api_key=first.token) as client:
        assert client.messages.count_tokens(
            model="claude-sonnet-5-5", messages=[{"role": "user", "content": "Hello"}]
        ).input_tokens
        assert "password" not in again.text
