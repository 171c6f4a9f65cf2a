"""What a model thought goes to the client, comes home with the next request, and is sent back as the upstream wants it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.asking import asked, result, sent, user
from tests.translator.core.test_decoder_responses import added, done, ended
from tests.translator.core.upstreams import DONE, answer, chunk, decoder, finish, sse, tool
from translator.core.anthropic.message import render_message
from translator.core.facts import ModelFacts
from translator.core.openai_responses.decoder import Decoder as ResponsesDecoder
from translator.core.openai_responses.request import render_request as render_responses
from translator.core.profiles import PROFILES
from translator.core.switches import Profile

#: The field that each upstream speaks of its thinking in, and wants to hear it in.
FIELDS = {
    "nvidia_nim": "reasoning_content",
    "vllm": "reasoning",
    "sglang": "reasoning_content",
    "ollama": "reasoning",
    "llama_cpp": "reasoning_content",
    "deepseek": "reasoning_content",
}
THOUGHTS = st.text(min_size=1).filter(str.strip).filter(lambda text: "\0" not in text)
GO = user("Go")


def heard(stream: bytes, subject: Any) -> dict[str, Any]:
    """The assistant message that a client puts together, and sends with its next request."""
    events = subject.feed(stream) + subject.finish()
    return {"role": "assistant", "content": render_message(events, message_id="msg_1", model="m")["content"]}


def thinking_stream(thought: list[str], **more: Any) -> bytes:
    calls = chunk(tool_calls=[tool('{"path":"a"}', name="Read", index=0, id="t1")])
    return sse(*[chunk(**{more.get("field", "reasoning"): piece}) for piece in thought], calls, finish(), DONE)


@pytest.mark.parametrize("is_shown", [True, False], ids=["shown", "omitted"])
@pytest.mark.parametrize("profile", FIELDS)
@given(thought=st.lists(THOUGHTS, min_size=1, max_size=3))
def test_what_a_model_thought_comes_back_to_it(profile: str, is_shown: bool, thought: list[str]) -> None:
    field = FIELDS[profile]
    subject = decoder(answer(omit_thinking_text=not is_shown))
    message = heard(thinking_stream(thought, field=field), subject)
    assert [block["type"] for block in message["content"]] == ["thinking", "tool_use"]
    assert message["content"][0]["thinking"] == ("".join(thought) if is_shown else "")

    body = sent(GO, message, user(result("t1")), profile=profile, thinking={"type": "adaptive"})

    assert body["messages"][1][field] == "".join(thought)


@given(data=st.text(), text=THOUGHTS)
def test_details_come_back_to_openrouter_unchanged(data: str, text: str) -> None:
    details = [
        {"type": "reasoning.text", "text": text, "signature": "sig", "index": 0, "format": "x"},
        {"type": "reasoning.encrypted", "data": data, "id": "r1", "index": 1},
    ]
    message = heard(sse(chunk(reasoning_details=details), chunk(content="4"), finish()), decoder())

    body = sent(GO, message, GO, profile="openrouter")

    assert body["messages"][1]["reasoning_details"] == details


@given(sealed=st.text(min_size=1))
def test_items_come_back_to_a_responses_upstream_unchanged(sealed: str) -> None:
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": sealed, "summary": []}
    call = {"type": "function_call", "call_id": "t1", "name": "Read", "arguments": "{}"}
    stream = sse(done(0, **item), added(1, **call), done(1, **call), ended())
    subject = ResponsesDecoder(answer(), profile=Profile(), new_id=lambda prefix: f"{prefix}_1")
    message = heard(stream, subject)

    request = asked(GO, message, user(result("t1")), thinking={"type": "adaptive"})
    body = render_responses(request, profile=PROFILES["openai"], model=ModelFacts(name="gpt-5")).body

    assert item in body["input"]


def test_thinking_that_is_another_upstreams_is_not_taken_for_ours() -> None:
    foreign = {"type": "thinking", "thinking": "", "signature": "EqQBCkYIBxgC"}
    message = {"role": "assistant", "content": [foreign, {"type": "text", "text": "4"}]}

    assert sent(GO, message, GO, profile="openrouter")["messages"][1] == {"role": "assistant", "content": "4"}
