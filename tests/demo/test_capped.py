"""Answers in parts: a call that holds the beginning of one gets what follows."""

from typing import Any

import pytest

from demo.answer import decide
from demo.ask import Ask, read_chat
from demo.capped import capped
from demo.chat import read
from demo.sample import WORDS
from demo.script import Fault, parse_script

HELLO = {"role": "user", "content": "Hello"}
ON = {"role": "user", "content": "It ends with <end>…</end>. Go on."}


def asked(*more: dict[str, Any]) -> Ask:
    return read_chat({"model": "m", "messages": [HELLO, *more]})


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def given(script: str, *more: dict[str, Any]) -> tuple[str, str, Fault | None]:
    ask, parsed = asked(*more), parse_script(script)
    answer, played = capped(decide(ask, parsed), ask, parsed)
    return answer.joined("text"), answer.finish, played.fault


A, B, C, D = WORDS[:4]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], (f"{A} {B} ", "length", None)),
        ([said(f"{A} {B} "), ON], (f"{C} {D} ", "stop", Fault.CUT)),
        ([said(f"{A} {B}")], (f" {C} ", "length", None)),
        ([said("What?"), {"role": "user", "content": "Again"}], (f"{A} {B} ", "length", None)),
        ([said(f"{A} {B} {C} {D} ")], ("", "stop", Fault.CUT)),
    ],
)
def test_an_answer_comes_in_parts(more: list[dict[str, Any]], expected: tuple[str, str, Fault | None]) -> None:
    assert given("frames=4,cap=2,lasts=1,cut", *more) == expected


def test_what_follows_may_repeat_the_end() -> None:
    text = f"{A} {B} "

    assert given("frames=4,cap=2,repeats=3", said(text), ON)[0] == f"{text[-3:]}{C} {D} "


def test_without_the_word_answers_are_whole() -> None:
    assert given("frames=4,cut") == (f"{A} {B} {C} {D} ", "stop", Fault.CUT)


def test_calls_in_the_text_are_cut_too() -> None:
    tools = '<tools>\n{"name": "Read", "parameters": {"properties": {"path": {"type": "string"}}}}\n</tools>'
    ask = read({"model": "m", "messages": [{"role": "system", "content": tools}, HELLO]})
    script = parse_script("tools=1,cap=2")

    answer, _ = capped(decide(ask, script), ask, script)

    assert (answer.joined("text"), answer.finish) == ('<tool_call>\n{"name": "Re', "length")
