"""The scripted upstream as a process of its own: fixtures `upstream_process` (a session) and `upstream` (a test)."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests import processes

#: So long may an attempt run on whose client is gone.
LEFT_OVER_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedUpstream:
    """A running `demo.upstream`; `base_url` ends in /v1."""

    base_url: str
    pid: int
    client: httpx.Client

    def script(self, script: str = "", **order: Any) -> None:
        """Say what the next calls get: `script("cut,frame=3", key="sk-1", times=2)`, `script(raw={...}, model="m")`.

        Without `key` or `model` it is meant for every call.
        """
        if not {"key", "model"} & order.keys():
            order["any"] = True
        self.client.post("script", json={"script": script, **order}).raise_for_status()

    def truth(self) -> dict[str, Any]:
        """Give `{"totals": {...}, "attempts": [...]}`: see `demo.truth`."""
        answer: dict[str, Any] = self.client.get("truth").raise_for_status().json()
        return answer

    def attempts(self) -> list[dict[str, Any]]:
        attempts: list[dict[str, Any]] = self.truth()["attempts"]
        return attempts

    def requests(self) -> list[dict[str, Any]]:
        """Give the calls received since the reset, oldest first: method, path, headers (as pairs), body."""
        requests: list[dict[str, Any]] = self.client.get("requests").raise_for_status().json()
        return requests

    def reset(self) -> None:
        """Forget scripts, ended attempts, requests and cached prefixes."""
        self.client.post("reset").raise_for_status()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Have it take connections and say nothing until the end of the block, to us neither."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def wait_for(self, condition: Callable[[dict[str, Any]], bool], *, within_s: float = 60) -> dict[str, Any]:
        """Poll the truth until it fits; fail when it doesn't in time."""
        until = time.monotonic() + within_s
        while not condition(truth := self.truth()):
            assert time.monotonic() < until, f"not within {within_s} s; the upstream says {truth}"
            time.sleep(0.02)
        return truth


@pytest.fixture(scope="session")
def upstream_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedUpstream]:
    """One scripted upstream for the whole run."""
    folder = tmp_path_factory.mktemp("upstream")
    arguments = ["-m", "demo.upstream", "--port", "0", "--truth", str(folder / "truth.jsonl")]
    running = processes.start(arguments, log=folder / "stderr.log")
    base_url = running.first_line.removeprefix("listening on ")
    try:
        with httpx.Client(base_url=base_url, trust_env=False, timeout=60) as client:
            yield ScriptedUpstream(base_url=base_url, pid=running.pid, client=client)
    finally:
        running.stop()


@pytest.fixture
def upstream(upstream_process: ScriptedUpstream) -> ScriptedUpstream:
    """The scripted upstream, with nothing in its memory, and nothing on its way that an earlier test left."""
    return forgetful(upstream_process)


def forgetful(upstream: ScriptedUpstream) -> ScriptedUpstream:
    """Have the upstream forget what was, and wait for what is on its way."""
    until = time.monotonic() + LEFT_OVER_S
    upstream.reset()
    while upstream.attempts() and time.monotonic() < until:
        time.sleep(0.02)
        upstream.reset()
    return upstream
