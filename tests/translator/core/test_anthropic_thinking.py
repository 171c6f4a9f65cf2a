"""Thinking that Anthropic can't read, since another signed it."""

from typing import Any

import pytest

from tests.translator.core.asking import assistant, call, result, text, user
from translator.core.anthropic.thinking import is_refused, without_thinking

THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "gw1.e30"}
HIDDEN: dict[str, Any] = {"type": "redacted_thinking", "data": "x"}
TURN = (assistant(THOUGHT, HIDDEN, text("Hi"), call("t1")), user(result("t1")))
#: What is left as it is, whatever it holds.
OTHERS = (user("Hello"), assistant("Hi"), {"role": "assistant", "content": []}, {"role": "system"})


def body(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [*OTHERS, *messages]}


REFUSALS = [
    "messages.3.content.0: Invalid `signature` in `thinking` block",
    "messages.97.content.2.thinking.signature: Field required",
    "messages.1.content.0.thinking: each thinking block must contain thinking",
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_of_earlier_thinking_is_known(refusal: str):
    assert is_refused(refusal, body(*TURN))
    assert not is_refused(refusal, body())
    assert not is_refused("messages.3.content.0: Field required", body(*TURN))


def test_earlier_thinking_is_left_out():
    assert without_thinking(body(*TURN, assistant(THOUGHT))) == body(assistant(text("Hi"), call("t1")), TURN[1])
    assert without_thinking(body()) == body()
