"""Claude Code as a program: installed once a run, in a home and a project of its own."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.packages import install
from tests.gateway import RunningGateway

__all__ = ["ClaudeCode", "Desk", "claude_code", "tool"]

#: The last version that is plain JavaScript: a third of the size of those that bring their own runtime.
PACKAGE = "@anthropic-ai/claude-code@2.0.77"
#: Nobody listens there: whatever isn't meant for the gateway must not leave the machine.
DEAD_PROXY = "http://127.0.0.1:9"
TURN_S = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where one conversation takes place: Claude Code's memory, and the folder that it works in."""

    home: Path
    project: Path

    @classmethod
    def at(cls, folder: Path) -> "Desk":
        desk = cls(home=folder / "home", project=folder / "project")
        desk.home.mkdir()
        desk.project.mkdir()
        return desk


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeCode:
    """The program."""

    program: Path

    def ask(self, gateway: RunningGateway, desk: Desk, prompt: str, *options: str) -> list[dict[str, Any]]:
        """Let it work on one prompt to the end; return its lines."""
        process = self.start(gateway, desk, prompt, *options)
        output, errors = process.communicate(timeout=TURN_S)
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        assert process.returncode == 0, (errors[-1000:], lines[-2:])
        return lines

    def start(self, gateway: RunningGateway, desk: Desk, prompt: str, *options: str) -> subprocess.Popen[str]:
        """Let it begin to work on a prompt, in a process group of its own."""
        words = ["-p", prompt, "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash,Read"]
        return subprocess.Popen(
            [self.program, *words, *options],
            cwd=desk.project,
            env=_environment(gateway, desk),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def _environment(gateway: RunningGateway, desk: Desk) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(desk.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "ANTHROPIC_BASE_URL": gateway.base_url,
        "ANTHROPIC_AUTH_TOKEN": gateway.token,
        "MAX_THINKING_TOKENS": "2000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1",
        "HTTP_PROXY": DEAD_PROXY,
        "HTTPS_PROXY": DEAD_PROXY,
    }


def kill_when(process: subprocess.Popen[str], is_time: Callable[[], bool], *, within_s: float = 60) -> None:
    """Kill the program and all that it runs, as soon as it is time."""
    until = time.monotonic() + within_s
    while not is_time():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "it never came so far"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=10)


def tool(name: str, **tool_input: Any) -> str:
    """Return the mark in a prompt that makes the scripted upstream call a tool."""
    return f"<<TOOL {json.dumps({'name': name, 'input': tool_input})}>>"


def result_of(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return next(line for line in lines if line["type"] == "result")


@pytest.fixture(scope="session")
def claude_code(tmp_path_factory: pytest.TempPathFactory) -> ClaudeCode:
    """The program that CLAUDE_BIN names, or one that is installed; without npm the tests are skipped."""
    if named := os.environ.get("CLAUDE_BIN"):
        return ClaudeCode(program=Path(named))
    folder = tmp_path_factory.mktemp("claude-code")
    install("npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE)
    return ClaudeCode(program=folder / "node_modules" / ".bin" / "claude")
