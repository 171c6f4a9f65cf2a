"""The scripted upstream as a process: its first line, its truth file, its end."""

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests import processes

CALL = {"model": "mock-n4-d0", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}


def test_each_attempt_is_a_line_of_the_truth_file(tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"
    running = processes.start(
        ["-m", "demo.upstream", "--port", "0", "--truth", str(truth), "--fsync"], log=tmp_path / "stderr.log"
    )
    url = running.first_line.removeprefix("listening on ")
    with httpx.Client(trust_env=False) as client:
        client.post(f"{url}/chat/completions", json=CALL, headers={"x-request-id": "one"})
        client.post(
            f"{url}/chat/completions", json=CALL | {"model": "script/status=500"}, headers={"x-request-id": "two"}
        )
    running.stop()

    lines = [json.loads(line) for line in truth.read_text(encoding="utf-8").splitlines()]
    assert [(line["request_id"], line["output_tokens"], line["ended"]) for line in lines] == [
        ("one", 4, "done"),
        ("two", 0, "refused"),
    ]


def test_a_stop_is_at_once_and_closes_the_truth(tmp_path: Path) -> None:
    truth = tmp_path / "truth.jsonl"
    running = processes.start(
        ["-m", "demo.upstream", "--port", "0", "--truth", str(truth)], log=tmp_path / "stderr.log"
    )
    url = running.first_line.removeprefix("listening on ")
    with (
        httpx.Client(trust_env=False) as client,
        client.stream(
            "POST", f"{url}/chat/completions", json=CALL | {"model": "script/ok,frames=9999,gap=10ms"}
        ) as answer,
    ):
        parts = answer.iter_raw()
        next(parts)
        began = time.monotonic()
        status = running.stop()
        assert (status, time.monotonic() - began < 30) == (0, True)
        with pytest.raises(httpx.TransportError):
            list(parts)

    [line] = [json.loads(line) for line in truth.read_text(encoding="utf-8").splitlines()]
    assert (line["ended"], line["finished"]) == ("stopped", False)


def test_it_ends_with_whoever_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "demo.upstream", "--port", "0", "--until-stdin-closes"],
        cwd=processes.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"listening on http://127.0.0.1:")

        process.stdin.close()

        assert process.wait(30) == 0
