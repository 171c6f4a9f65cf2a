"""Every quirk of an upstream's stream, through the gateway, to the message that each SDK puts together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clients.collect import collect
from tests.e2e.packages import AI_SDK, CLIENTS, OLD_PYTHON_SDK, TYPESCRIPT_SDK, node_with, python_with, run
from tests.e2e.sdk_streams import STREAMS, raw_of, short
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream

#: Broken streams make a credential rest; there are enough for all clients.
KEYS = [f"sk-{number}" for number in range(60)]

QUESTION: dict[str, Any] = {
    "max_tokens": 3000,
    "messages": [{"role": "user", "content": "Hello"}],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stop_sequences": ["###"],
    "tools": [
        {"name": name, "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}
        for name in ("Read", "Bash")
    ],
}


@pytest.fixture(scope="module")
def streaming(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    return make_gateway(upstream=upstream_process, keys=KEYS)


@pytest.fixture
def plan(streaming: RunningGateway, upstream: ScriptedUpstream) -> Iterator[dict[str, Any]]:
    """The upstream has learnt each stream under a model's name."""
    models = [f"stream-{number}" for number in range(len(STREAMS))]
    for model, (stream, _) in zip(models, STREAMS.values(), strict=True):
        upstream.script(raw=raw_of(stream), model=model)
    yield {"base_url": streaming.base_url, "token": streaming.token, "models": models, "question": QUESTION}
    upstream.reset()


def check(seen: list[dict[str, Any]], *, but: dict[str, dict[str, Any]] | None = None) -> None:
    """Hold what a client saw against the table, and against what it is known to see otherwise."""
    wanted = {name: {**expected, **(but or {}).get(name, {})} for name, (_, expected) in STREAMS.items()}

    got = {name: short(message, wanted[name]) for name, message in zip(STREAMS, seen, strict=True)}

    assert got == wanted


def collected(*words: str, plan: dict[str, Any], cwd: Path | None = None) -> dict[str, Any]:
    done = run(*words, cwd=cwd, given=json.dumps(plan))
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_there_are_enough() -> None:
    assert len(STREAMS) > 45


def test_the_python_sdk(plan: dict[str, Any]) -> None:
    check(collect(plan))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_python_sdk_of_last_year(plan: dict[str, Any]) -> None:
    words = python_with(OLD_PYTHON_SDK, module="anthropic")

    answer = collected(*words, str(CLIENTS / "collect.py"), plan=plan)

    assert answer["version"] == OLD_PYTHON_SDK.partition("==")[2]
    check(answer["seen"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_typescript_sdk(plan: dict[str, Any], tmp_path: Path) -> None:
    words = node_with(tmp_path, "collect.mjs", TYPESCRIPT_SDK)

    answer = collected(*words, plan=plan, cwd=tmp_path)

    assert answer["version"] == TYPESCRIPT_SDK.rpartition("@")[2]
    check(answer["seen"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_vercel_ai_sdk(plan: dict[str, Any], tmp_path: Path) -> None:
    words = node_with(tmp_path, "collect_ai.mjs", *AI_SDK)

    check(collected(*words, plan=plan, cwd=tmp_path)["seen"])
