"""What the scripted upstream does without a script is what it was asked for; and with one, all but a single thing."""

from base64 import b64encode
from typing import Any

import pytest

from demo.answer import Answer, decide
from demo.ask import read_chat, read_messages, read_responses
from demo.lacking import HEARD_INSTEAD, HOLDS, lacking
from demo.script import DEAF_TO, REFUSED, parse_script
from demo.sight import colour_of
from translator.core.model_checks.checks import YELLOW, one_colour_png

PICTURE = one_colour_png(8, YELLOW)
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"properties": {"city": {"type": "string"}}}}}
    for name in ("get_weather", "get_time")
]


def answer_to(script: str = "", **body: Any) -> Answer:
    ask = read_chat({"model": "demo", **body})
    if not script:
        return decide(ask, None)
    return decide(*lacking(ask, parse_script(script)))


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (
            read_chat,
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "Which?"},
                            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
                        ],
                    }
                ]
            },
        ),
        (
            read_messages,
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
                            },
                            {"type": "text", "text": "Which?"},
                        ],
                    }
                ]
            },
        ),
        (
            read_responses,
            {
                "input": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "input_text", "text": "Which?"},
                            {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
                        ],
                    }
                ]
            },
        ),
    ],
)
def test_a_picture_is_seen_in_each_dialect(read: Any, body: dict[str, Any]) -> None:
    assert decide(read({"model": "demo", **body}), None).joined("text").startswith("I see a picture: yellow.")


@pytest.mark.parametrize(
    ("image", "colour"),
    [
        (one_colour_png(8, (250, 10, 0)), "red"),
        (one_colour_png(200, (0, 0, 200)), "blue"),
        ("no base64", None),
        (b64encode(b"GIF89a" + b"x" * 60).decode(), None),
        (b64encode(b"\x89PNG\r\n\x1a\n").decode(), None),
        (PICTURE[:60], None),
        ("", None),
    ],
)
def test_a_colour_is_named_where_a_picture_can_be_read(image: str, colour: str | None) -> None:
    assert colour_of(image) == colour


def test_the_word_that_is_asked_for_is_the_answer() -> None:
    turns: list[dict[str, Any]] = [{"role": "user", "content": 'Answer with the word "first".'}]
    assert answer_to(messages=turns).joined("text") == "first"

    turns += [{"role": "assistant", "content": "first"}, {"role": "user", "content": "And now?"}]
    assert "And now?" in answer_to(messages=turns).joined("text")

    turns.append({"role": "system", "content": "Always answer with the word “second”."})
    assert answer_to(messages=turns).joined("text") == "second"


@pytest.mark.parametrize(
    ("text", "more", "called"),
    [
        ("Call get_weather and call the tool get_time.", {}, ["get_weather", "get_time"]),
        ("Call get_weather and call get_time.", {"parallel_tool_calls": False}, ["get_weather"]),
        ("Call get_time now.", {}, ["get_time"]),
        ("Call the only tool.", {}, []),
        ("Call the only tool.", {"tools": TOOLS[:1]}, ["get_weather"]),
        ("It is the only tool.", {"tools": TOOLS[:1]}, []),
    ],
)
def test_the_tools_that_are_named_are_called(text: str, more: dict[str, Any], called: list[str]) -> None:
    assert [call.name for call in answer_to(**says(text), **{"tools": TOOLS, **more}).calls] == called


def test_a_plain_script_changes_nothing() -> None:
    assert answer_to("plain", **says("Hello")) == answer_to(**says("Hello"))


def test_a_deaf_model_hears_all_but_one_thing() -> None:
    assert set(HEARD_INSTEAD) == set(DEAF_TO)
    asked = {**says("Call get_weather and call get_time."), "tools": TOOLS}

    assert not answer_to("deaf=tools", **asked).calls
    assert len(answer_to("deaf=parallel", **asked).calls) == 1
    assert answer_to("deaf=choice", **asked, tool_choice="none").calls
    assert not answer_to(**asked, tool_choice="none").calls
    assert answer_to("deaf=stop", **says("one two"), stop="two").finish == "stop"
    assert "two" in answer_to("deaf=stop", **says("one two"), stop="two").joined("text")
    assert answer_to("deaf=limit", **says("one two"), max_tokens=2).finish == "stop"
    assert not answer_to("deaf=thinking", **says("one"), reasoning_effort="low").joined("reasoning")


def test_a_model_that_refuses_something_takes_all_else() -> None:
    assert set(HOLDS) == set(REFUSED)
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    with_image = read_chat({"messages": [{"role": "user", "content": [image]}]})
    with_tools = read_chat({**says("Hello"), "tools": TOOLS})

    assert lacking(with_image, parse_script("refuses=images"))[1].status == 400
    assert lacking(with_tools, parse_script("refuses=images"))[1].status == 200
    assert lacking(with_tools, parse_script("refuses=tools"))[1].status == 400
    assert lacking(with_tools, parse_script("plain"))[1].status == 200
