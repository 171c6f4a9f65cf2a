"""Turns of Claude Code that try a translation: parallel tools, an image, a failure, a kill; through three profiles."""

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.claude_code import ClaudeCode, Desk, claude_code, kill_when, result_of, tool
from tests.e2e.ledger import assert_ledger_adds_up
from tests.gateway import MakeGateway, RunningGateway
from tests.upstream import ScriptedUpstream
from translator.core.openai_chat.blocks import NO_IMAGES

__all__ = ["claude_code"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: By profile: the upstream model, the field in which it hears what it thought before, and whether it sees images.
PROFILES = {
    "plain": ("demo", None, True),
    "vllm": ("gpt-oss-120b", "reasoning", True),
    "deepseek": ("demo", "reasoning_content", False),
}
#: An answer that takes its time.
SLOW = "ok,frames=500,gap=30ms"
#: One red pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def three(make_gateway: MakeGateway, upstream_process: ScriptedUpstream) -> RunningGateway:
    """The same upstream under three profiles; whatever else the client asks for goes to the first."""
    base_url = upstream_process.base_url
    commands = []
    for profile, (model, *_) in PROFILES.items():
        commands.append(["add_upstream", profile, base_url, "--profile", profile, "--key", f"sk-{profile}"])
        commands.append(["add_route", f"claude-{profile}", profile, model])
    return make_gateway(upstream=upstream_process, commands=commands)


def requests_with_tools(upstream: ScriptedUpstream) -> list[dict[str, Any]]:
    """The bodies of the conversation itself; side requests offer no tools."""
    return [request["body"] for request in upstream.requests() if request["body"].get("tools")]


def is_speaking(upstream: ScriptedUpstream, script: str) -> bool:
    """Whether the answer of this script has begun."""
    return any(attempt["script"] == script and attempt["sent_tokens"] > 20 for attempt in upstream.attempts())


@pytest.mark.parametrize("profile", PROFILES)
def test_parallel_tools_with_an_image_and_a_failure(
    profile: str, claude_code: ClaudeCode, three: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    desk = Desk.at(tmp_path)
    picture = desk.project / "pixel.png"
    picture.write_bytes(PNG)
    calls = [
        tool("Bash", command="printf first > one.txt", description="write"),
        tool("Read", file_path=str(picture)),
        tool("Bash", command="echo no luck >&2; exit 3", description="fail"),
    ]

    lines = claude_code.ask(
        three,
        desk,
        f"Do it. {' '.join(calls)} <<FINAL all three>>",
        "--model",
        f"claude-{profile}",
        "--max-turns",
        "12",
    )

    result = result_of(lines)
    assert (result["is_error"], result["result"]) == (False, "all three")
    assert (desk.project / "one.txt").read_text() == "first"
    check_history(requests_with_tools(upstream)[-1], *PROFILES[profile][1:])
    assert_ledger_adds_up(three, upstream)


def check_history(body: dict[str, Any], reasoning_field: str | None, sees_images: bool) -> None:
    """The results follow their calls in order, the image comes behind them, and thinking is where it belongs."""
    messages = body["messages"]
    place = next(n for n, message in enumerate(messages) if message.get("tool_calls"))
    called, results, after = messages[place], messages[place + 1 : place + 4], messages[place + 4 :]
    assert [call["function"]["name"] for call in called["tool_calls"]] == ["Bash", "Read", "Bash"]
    assert [message["role"] for message in results] == ["tool"] * 3
    assert [message["tool_call_id"] for message in results] == [call["id"] for call in called["tool_calls"]]
    assert results[2]["content"].lower().startswith("error")
    assert "no luck" in results[2]["content"]
    if sees_images:
        [image] = [part for part in after[0]["content"] if part["type"] == "image_url"]
        assert image["image_url"]["url"].startswith("data:image/png;base64,")
    else:
        assert results[1]["content"] == NO_IMAGES
    if reasoning_field:
        assert called[reasoning_field].startswith("The question is")
    assert called.keys() <= {"role", "content", "tool_calls", reasoning_field}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_turn_that_was_killed_is_continued(
    profile: str, claude_code: ClaudeCode, three: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    desk = Desk.at(tmp_path)
    started = desk.project / "started"
    model = ["--model", f"claude-{profile}", "--max-turns", "12"]
    calls = [
        tool("Bash", command="touch started; sleep 60", description="wait"),
        tool("Bash", command="echo never", description="say"),
    ]
    process = claude_code.start(three, desk, f"Remember the word heron. {' '.join(calls)} <<FINAL never>>", *model)
    kill_when(process, started.exists)

    lines = claude_code.ask(three, desk, "Go on. <<FINAL I went on>>", "--continue", *model)

    result = result_of(lines)
    assert (result["is_error"], result["result"]) == (False, "I went on")
    messages = requests_with_tools(upstream)[-1]["messages"]
    assert "Remember the word heron." in str(messages)
    for place, message in enumerate(messages):
        for number, call in enumerate(message.get("tool_calls") or [], start=1):
            assert messages[place + number]["tool_call_id"] == call["id"]
    assert_ledger_adds_up(three, upstream)


@pytest.mark.parametrize("profile", PROFILES)
def test_an_answer_that_was_killed_is_continued(
    profile: str, claude_code: ClaudeCode, three: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    desk = Desk.at(tmp_path)
    key = f"sk-{profile}"
    upstream.script("ok", key=key, times=1)
    upstream.script(SLOW, key=key, times=1)
    model = ["--model", f"claude-{profile}", "--max-turns", "12"]
    prompt = f"Remember the word heron. {tool('Bash', command='echo noted', description='note')} <<FINAL never>>"
    process = claude_code.start(three, desk, prompt, *model)
    kill_when(process, lambda: is_speaking(upstream, SLOW))

    lines = claude_code.ask(three, desk, "Go on. <<FINAL I went on>>", "--continue", *model)

    assert result_of(lines)["result"] == "I went on"
    assert "heron" in str(requests_with_tools(upstream)[-1]["messages"])
    records = assert_ledger_adds_up(three, upstream)
    [killed] = [attempt["request_id"] for attempt in upstream.attempts() if attempt["script"] == SLOW]
    assert [record["state"] for record in records if str(record["id"]) == killed] == ["client_gone"]
