"""Frameworks with parsers of their own: LangChain, Pydantic AI and llm, in an environment of their own."""

import json

import pytest

from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.packages import CLIENTS, python_with, run
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

FRAMEWORKS = ("langchain-anthropic==1.7.10", "pydantic-ai-slim[anthropic]==2.68.0", "llm==0.36", "llm-anthropic==0.30")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_frameworks_understand_every_answer(shared: RunningGateway, upstream: ScriptedUpstream) -> None:
    words = python_with(*FRAMEWORKS, module="langchain_anthropic, pydantic_ai, llm_anthropic")

    done = run(*words, str(CLIENTS / "talk_frameworks.py"), shared.base_url, shared.token)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    for framework in ("langchain", "pydantic-ai"):
        assert seen[framework]["cities"] == ["Paris"]
        assert seen[framework]["final"] == "it is warm"
    for told in seen.values():
        assert "“Hello”" in told["whole"]
        assert told["usage"] == [True, True]
    assert seen["llm"]["streamed"] == seen["llm"]["whole"]
    assert_ledger_adds_up(shared, upstream)
