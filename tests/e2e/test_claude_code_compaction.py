"""Claude Code in a conversation that outgrows its model: it goes on, and so do its tools."""

from pathlib import Path

import pytest

from tests.e2e.claude_code import ClaudeCode, Desk, claude_code, result_of, tool
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway
from tests.upstream import ScriptedUpstream

__all__ = ["claude_code"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: Its system prompt and tools take some 18,000 tokens.
WINDOW = 40_000
ALIAS = "claude-small"
#: About 3,000 tokens a turn.
FILLER = "The quick brown fox jumps over the lazy dog. " * 230


def test_it_outgrows_the_window_and_never_learns_of_it(
    claude_code: ClaudeCode, make_gateway: MakeGateway, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    upstream.script("text=It+was+about+a+fox.", model="writer")
    gateway = make_gateway(upstream=upstream, commands=[["add_route", ALIAS, "scripted", "demo"]])
    gateway.execute(
        "INSERT INTO keys_upstreammodel"
        " (upstream_id, name, tools, context_window, compaction, compact_above, compact_to, summary_alias)"
        " SELECT id, 'demo', 'native', %s, 'summary', 85, 60, 'writer' FROM keys_upstream",
        [WINDOW],
    )
    desk = Desk.at(tmp_path)
    for turn in range(9):
        calls = tool("Bash", command=f"printf {turn} > turn.txt", description="write")
        lines = claude_code.ask(
            gateway,
            desk,
            f"{FILLER} {calls} <<FINAL turn {turn}>>",
            "--model",
            ALIAS,
            *(["--continue"] if turn else []),
        )
        result = result_of(lines)
        assert (result["is_error"], result["result"]) == (False, f"turn {turn}"), gateway.log()[-2000:]
        assert (desk.project / "turn.txt").read_text() == str(turn)
        assert not [line for line in lines if line.get("subtype") == "compact_boundary"]

    records = assert_ledger_adds_up(gateway, upstream)
    notes = [record["notes"][0] for record in records if record["notes"]]
    assert "compaction_summary" in notes
    assert 1 <= notes.count("compaction") <= notes.count("compaction_summary") / 2
    # It leaves side requests behind when it is done.
    assert {record["state"] for record in records if record["notes"]} == {"ok"}
    last = [request["body"] for request in upstream.requests() if request["body"].get("tools")][-1]
    assert "It was about a fox." in str(last["messages"][1]["content"])
