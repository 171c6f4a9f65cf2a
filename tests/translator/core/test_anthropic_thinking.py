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
    "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
    "messages.0.content.0.redacted_thinking.data: Field required",
    "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_of_earlier_thinking_is_known(refusal: str):
    assert is_refused(refusal, body(*TURN))
    assert not is_refused(refusal, body())
    assert not is_refused("messages.3.content.0: Field required", body(*TURN))


def test_earlier_thinking_is_left_out():
    assert without_thinking(body(*TURN, assistant(THOUGHT))) == body(assistant(text("Hi"), call("t1")), TURN[1])
    assert without_thinking(body()) == body()


def test_who_cannot_show_the_thinking_before_its_calls_is_not_told_to_think():
    cleared, other = {"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_20250919"}
    asked = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "context_management": {"edits": [cleared, other]}}
    unthought = (assistant(call("t1")), user(result("t1"), text("Go on")), {"role": "system", "content": "Now."})
    refusal = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."

    assert without_thinking(body(*unthought) | asked) == body(*unthought) | {"context_management": {"edits": [other]}}
    assert without_thinking(body(*unthought) | {"thinking": asked["thinking"]}) == body(*unthought)
    assert is_refused(refusal, body(*unthought) | asked)
    for as_it_is in (
        body(*unthought) | {"thinking": {"type": "adaptive"}},
        body(*unthought, assistant("Done"), user("Hello")) | asked,
    ):
        assert without_thinking(as_it_is) == as_it_is
