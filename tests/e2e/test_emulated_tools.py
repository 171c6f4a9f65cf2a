"""Tools for a model that has none, through a running gateway and the official SDK."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import anthropic
import httpx
import pytest

from demo.told import FORMS
from tests.e2e.claude_code import ClaudeCode, Desk, claude_code, result_of, tool
from tests.e2e.ledger import assert_ledger_adds_up
from tests.e2e.sdk_talk import WEATHER, ask_for_the_weather, converse, user
from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream
from usage.pages.notes import in_words

__all__ = ["claude_code"]

MODELS = ["demo", *(f"script/{word},form={form}" for form in FORMS for word in ("tools=2", "ok"))]


@pytest.fixture(scope="module")
def emulating(
    make_gateway: Callable[..., RunningGateway],
    upstream_process: ScriptedUpstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> RunningGateway:
    """A gateway whose models call no tools themselves."""
    upstream = {"name": "scripted", "base_url": upstream_process.base_url}
    models = [{"name": name, "tools": "emulated"} for name in MODELS]
    setup = tmp_path_factory.mktemp("setup") / "setup.yaml"
    setup.write_text(json.dumps({"upstreams": [{**upstream, "models": models}]}), encoding="utf-8")
    return make_gateway(upstream=upstream_process, keys=["sk-1", "sk-2"], commands=[["import_setup", str(setup)]])


@pytest.fixture
def client(emulating: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=emulating.base_url, api_key=emulating.token, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
def test_a_conversation_with_a_tool(
    client: anthropic.Anthropic, emulating: RunningGateway, upstream: ScriptedUpstream, is_streamed: bool
) -> None:
    _, second = ask_for_the_weather(client, is_streamed)

    assert second.content[0].type == "text"
    assert (second.content[0].text, second.stop_reason) == ("The tool answered: 18 degrees", "end_turn")
    records = assert_ledger_adds_up(emulating, upstream)
    assert all("tool_emulation" in record["notes"] for record in records[-2:])
    body = upstream.requests()[-1]["body"]
    assert "tools" not in body
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["messages"][2]["content"].startswith("<tool_call>")
    assert '<tool_response name="get_weather">\n18 degrees\n</tool_response>' in body["messages"][3]["content"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
def test_calls_in_any_form(
    client: anthropic.Anthropic, emulating: RunningGateway, upstream: ScriptedUpstream, form: str, is_streamed: bool
) -> None:
    message = converse(client, [user("Hello")], is_streamed, model=f"script/tools=2,form={form}")

    calls = [block for block in message.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"city": "item 0"}, {"city": "item 1"}]
    assert message.stop_reason == "tool_use"
    notes = assert_ledger_adds_up(emulating, upstream)[-1]["notes"]
    assert ("tool_json_loose" in notes) == (form == "broken")


def test_a_forced_tool_is_called_and_only_one(client: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    choice = {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}
    message = converse(client, [user("Hello")], True, tool_choice=choice)

    assert [block.type for block in message.content] == ["tool_use"]


def test_arguments_come_while_the_model_writes_them(client: anthropic.Anthropic, upstream: ScriptedUpstream) -> None:
    with client.messages.stream(
        model="demo",
        max_tokens=500,
        messages=[user('Use get_weather for "a city of a rather long name"')],
        tools=[WEATHER],
    ) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]

    assert len(pieces) > 2
    assert json.loads("".join(pieces)) == {"city": "a city of a rather long name"}


def test_tokens_are_counted_as_they_are_sent(
    client: anthropic.Anthropic, emulating: RunningGateway, upstream: ScriptedUpstream
) -> None:
    counted = client.messages.count_tokens(model="demo", messages=[user("Hello")], tools=[WEATHER])
    message = converse(client, [user("Hello")], False)

    assert counted.input_tokens == pytest.approx(message.usage.input_tokens, rel=0.25)


def test_a_model_that_refuses_tools_is_noted_with_what_to_do(
    client: anthropic.Anthropic, emulating: RunningGateway, upstream: ScriptedUpstream
) -> None:
    with pytest.raises(anthropic.BadRequestError, match="does not support tools"):
        converse(client, [user("Hello")], False, model="script/status=400,message=gemma+does+not+support+tools")

    assert emulating.settled()[-1]["notes"] == ["tools_refused"]
    assert "can be emulated" in in_words("tools_refused")


def test_repairs_are_counted_for_prometheus(
    client: anthropic.Anthropic, emulating: RunningGateway, upstream: ScriptedUpstream
) -> None:
    converse(client, [user("Hello")], False, model="script/tools=2,form=broken")
    assert_ledger_adds_up(emulating, upstream)

    lines = httpx.get(f"{emulating.base_url}/metrics", trust_env=False, timeout=60).text.splitlines()
    assert any(
        line.startswith('bridge_tool_repairs_total{kind="tool_json_loose",upstream="scripted"}') for line in lines
    )
    assert any(line.startswith('bridge_emulated_attempts_total{upstream="scripted"}') for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["hermes", "qwen", "fence", "broken"])
def test_claude_code_works_through_tools_told_in_words(
    claude_code: ClaudeCode, emulating: RunningGateway, upstream: ScriptedUpstream, tmp_path: Path, form: str
) -> None:
    desk = Desk.at(tmp_path)
    (desk.project / "note.txt").write_text("4711\n", encoding="utf-8")
    write = tool("Bash", command="cat note.txt > made.txt", description="Copy the note")
    read = tool("Read", file_path=str(desk.project / "note.txt"))
    prompt = f"Do it. {write} {read} <<FINAL All done.>>"
    lines = claude_code.ask(emulating, desk, prompt, "--model", f"script/ok,form={form}")

    assert result_of(lines)["result"].strip() == "All done."
    assert (desk.project / "made.txt").read_text(encoding="utf-8") == "4711\n"
    assert_ledger_adds_up(emulating, upstream)
