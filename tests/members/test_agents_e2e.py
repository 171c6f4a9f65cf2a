"""What a client says of its agents reaches the ledger, however odd it is."""

import httpx
import pytest

from tests.e2e.client import question
from tests.gateway import RunningGateway

SESSION = "x-claude-code-session-id"
AGENT, KIND, CLASS = (f"x-claude-code-{name}" for name in ("agent-id", "agent-type", "request-class"))


@pytest.mark.parametrize(
    ("headers", "agent_id", "agent_kind"),
    [
        ({}, "", ""),
        ({AGENT: "af6c1922b47d418f3"}, "af6c1922b47d418f3", ""),
        ({AGENT: "a1", KIND: "Explore", CLASS: "subagent"}, "a1", "Explore"),
        ({CLASS: "compaction"}, "", "compaction"),
        ({AGENT: "a" * 900, KIND: "<b>" * 50}, "a" * 64, ("<b>" * 50)[:64]),
    ],
)
def test_agents_are_noted_as_the_client_names_them(
    shared: RunningGateway, headers: dict[str, str], agent_id: str, agent_kind: str
) -> None:
    headers = {"x-api-key": shared.token, SESSION: "one-session", **headers}
    answer = httpx.post(
        f"{shared.base_url}/v1/messages", json=question("mock-n1-d0"), headers=headers, trust_env=False, timeout=60
    )
    assert answer.status_code == 200, answer.text

    attempts = [row for row in shared.settled() if row["request_id"] == answer.headers["request-id"]]
    assert {(row["session_id"], row["agent_id"], row["agent_kind"]) for row in attempts} == {
        ("one-session", agent_id, agent_kind)
    }
    assert all(0 <= row["queued_ms"] < 5000 for row in attempts)
