"""What is made of the answers to a model's check: which pass each judge, which fail it, and what follows from them."""

import zlib
from base64 import b64decode
from typing import Any

import orjson
import pytest

from translator.core.anthropic.request import parse_request
from translator.core.events import UsageSource
from translator.core.model_checks import checks
from translator.core.model_checks.checks import CHECKS, LONG_NAME, Need, find_check, judge
from translator.core.model_checks.conclusion import Readiness, conclude
from translator.core.model_checks.heard import ERROR_CHARS_MAX, Heard, hear_error, hear_stream, hear_whole
from translator.core.model_checks.judges import SAID_TO_TAKE_NONE, SHOWN_CHARS_MAX, THINK_TAGS, Verdict

PASSED, PARTLY, FAILED = Verdict.PASSED, Verdict.PARTLY, Verdict.FAILED


def text(words: str, **more: Any) -> Heard:
    facts: dict[str, Any] = {"stop_reason": "end_turn", "is_ended": True, "text_deltas": 5}
    return Heard(content=[{"type": "text", "text": words}], **facts | more)


def calls(*named: tuple[str, Any], **more: Any) -> Heard:
    blocks = [{"type": "tool_use", "name": name, "input": given} for name, given in named]
    return Heard(content=blocks, **{"stop_reason": "tool_use", "is_ended": True, **more})


def thought(words: str) -> Heard:
    return Heard(content=[{"type": "thinking", "thinking": words}, {"type": "text", "text": "11"}], is_ended=True)


WEATHER = {"city": "Paris", "days": 3}
SILENT = Heard(stop_reason="end_turn", is_ended=True)
LINE = " ".join(checks.LINE)

#: The check, what was heard, the verdict.
CASES: list[tuple[str, Heard, Verdict]] = [
    ("whole", text("Hello!"), PASSED),
    ("whole", text("Hello and", stop_reason="max_tokens"), PASSED),
    ("whole", text("<think>Hm.</think>Hello!"), PARTLY),
    ("whole", text("Hello!", stop_reason="refusal"), FAILED),
    ("whole", SILENT, FAILED),
    ("stream", text("one two"), PASSED),
    ("stream", text("one two", text_deltas=1), PARTLY),
    ("stream", text("one two", is_ended=False), FAILED),
    ("stream", SILENT, FAILED),
    ("usage_whole", text("Hi", usage_source=UsageSource.UPSTREAM), PASSED),
    ("usage_whole", text("Hi", usage_source=UsageSource.PARTIAL), PARTLY),
    ("usage_whole", text("Hi"), PARTLY),
    ("usage_whole", text("Hi", usage_source=UsageSource.ESTIMATED), FAILED),
    ("usage_stream", text("Hi", usage_source=UsageSource.UPSTREAM), PASSED),
    ("usage_stream", text("Hi", usage_source=UsageSource.UNKNOWN), FAILED),
    ("max_tokens", text("one two", stop_reason="max_tokens"), PASSED),
    ("max_tokens", text("one two"), FAILED),
    ("stop_sequence", text("alpha beta gamma ", stop_reason="stop_sequence", stop_sequence="HALT"), PASSED),
    ("stop_sequence", text("alpha beta gamma "), PARTLY),
    ("stop_sequence", text("alpha", stop_reason="stop_sequence", stop_sequence="another"), PARTLY),
    ("stop_sequence", text("alpha beta gamma HALT delta"), FAILED),
    ("tool_call", calls(("get_weather", WEATHER)), PASSED),
    ("tool_call", text("It is fine in Paris."), FAILED),
    ("tool_call", calls(("get_wether", WEATHER)), FAILED),
    ("tool_call", calls(("get_weather", {"city": "Paris"})), FAILED),
    ("tool_call", calls(("get_weather", {**WEATHER, "days": "3"})), FAILED),
    ("tool_call", calls(("get_weather", {**WEATHER, "unit": "C"})), FAILED),
    ("tool_call", calls(("get_weather", "Paris")), FAILED),
    ("tool_call", calls(("get_weather", WEATHER), stop_reason="end_turn"), FAILED),
    ("forced_tool", calls(("note_mood", {"mood": "glad"})), PASSED),
    ("forced_tool", calls(("look_up", {"word": "glad"})), FAILED),
    ("forced_tool", text("So am I."), FAILED),
    ("no_tool", text("unable"), PASSED),
    ("no_tool", calls(("get_time", {"city": "Oslo"})), FAILED),
    ("no_tool", text("unable", stop_reason="tool_use"), FAILED),
    ("no_tool", SILENT, FAILED),
    ("two_tools", calls(("get_time", {}), ("get_weather", {})), PASSED),
    ("two_tools", calls(("get_time", {})), PARTLY),
    ("two_tools", calls(("get_time", {}), ("get_time", {})), PARTLY),
    ("two_tools", text("It is fine in Rome."), FAILED),
    ("two_tools", calls(("get_time", {}), ("get_weather", {}), stop_reason="end_turn"), FAILED),
    ("tool_result", text("It is a small Zorvanth."), PASSED),
    ("tool_result", text("A quimble is a bird."), FAILED),
    ("image", text("Yellow."), PASSED),
    ("image", text("I can't see it."), FAILED),
    ("image", text("It is yellow.", notes=["media_omitted"]), FAILED),
    ("thinking", thought("11 is more."), PASSED),
    ("thinking", thought(""), PARTLY),
    ("thinking", text("<think>Hm.</think>11"), FAILED),
    ("thinking", text("11"), FAILED),
    ("system_turn", text("Plumeria"), PASSED),
    ("system_turn", text("Paris"), FAILED),
    ("long_tool_name", calls((LONG_NAME, {"word": "heron"})), PASSED),
    ("long_tool_name", calls((LONG_NAME[:64], {"word": "heron"})), FAILED),
    ("scripts", text(f"Here it is: {LINE}"), PASSED),
    ("scripts", text("Привет, мир"), PARTLY),
    ("scripts", text(LINE.encode().decode("latin-1")), FAILED),
    ("scripts", text(LINE.encode("cp1252", "replace").decode("utf-8", "replace")), FAILED),
]


def check_named(name: str) -> checks.Check:
    check = find_check(name)
    assert check is not None
    return check


@pytest.mark.parametrize(("name", "heard", "verdict"), CASES)
def test_an_answer_is_judged(name: str, heard: Heard, verdict: Verdict) -> None:
    found = judge(check_named(name), heard)

    assert found.verdict is verdict
    assert found.seen
    assert bool(found.advice) is (verdict is not PASSED)


def test_each_check_has_answers_that_pass_and_that_fail() -> None:
    for check in CHECKS:
        verdicts = {verdict for name, _, verdict in CASES if name == check.name}
        assert {PASSED, FAILED} <= verdicts, check.name


def test_each_request_is_small_and_one_that_the_gateway_takes() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        body = orjson.dumps(check.request("some-alias"))

        parsed = parse_request(body)

        assert parsed.model == "some-alias"
        assert parsed.stream is check.stream
        assert 0 < (parsed.max_tokens or 0) <= checks.MAX_TOKENS
        assert len(body) < 2000


def test_no_prompt_gives_its_answer_away() -> None:
    assert b"yellow" not in orjson.dumps(check_named("image").body).lower()
    tool_result = check_named("tool_result").body["messages"]
    assert "zorvanth" not in str(tool_result[:-1])
    assert len(LONG_NAME) > 64


def test_the_picture_is_a_yellow_png() -> None:
    png = b64decode(check_named("image").body["messages"][0]["content"][0]["source"]["data"])

    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(png[16:20]) == int.from_bytes(png[20:24]) == checks.PICTURE_SIZE
    at = png.index(b"IDAT")
    pixels = zlib.decompress(png[at + 4 : at + 4 + int.from_bytes(png[at - 4 : at])])
    row = b"\0" + b"\xff\xff\0" * checks.PICTURE_SIZE
    assert pixels == row * checks.PICTURE_SIZE


@pytest.mark.parametrize(
    ("name", "heard", "advice"),
    [
        ("whole", text("<think>Hm.</think>Hello!"), THINK_TAGS),
        ("image", text("none", notes=["media_omitted"]), SAID_TO_TAKE_NONE),
        ("image", Heard(status=400, error="400 invalid_request_error: no images"), check_named("image").advice),
        ("tool_call", Heard(status=400, error="400 invalid_request_error: no tools"), checks.EMULATE),
        ("tool_call", Heard(status=404, error="404 not_found_error: no model"), checks.ADVICE_BY_STATUS[404]),
        ("tool_call", Heard(status=0, error="no end after 60 seconds"), checks.LOOK_AT_IT),
        ("stream", Heard(error="api_error within the stream: gone"), checks.LOOK_AT_IT),
        ("tool_call", Heard(stop_reason="max_tokens"), checks.THINKS_LONG),
        ("tool_call", text("Well, the weather", stop_reason="max_tokens"), checks.EMULATE),
        ("tool_call", calls(("get_weather", {}), stop_reason="max_tokens"), checks.EMULATE),
    ],
)
def test_the_advice_fits_what_went_wrong(name: str, heard: Heard, advice: str) -> None:
    assert judge(check_named(name), heard).advice == advice


def test_an_error_fails_each_check_in_its_own_words() -> None:
    for check in CHECKS:
        found = judge(check, Heard(status=529, error="529 overloaded_error: busy"))
        assert (found.verdict, found.seen) == (FAILED, "529 overloaded_error: busy")


def test_long_words_are_shortened() -> None:
    seen = judge(check_named("whole"), text("word " * 100)).seen

    assert len(seen) < SHOWN_CHARS_MAX + 20
    assert "…" in seen


def test_an_unknown_check_is_none() -> None:
    assert find_check("nothing") is None


ALL_PASSED = dict.fromkeys((check.name for check in CHECKS), PASSED)


@pytest.mark.parametrize(
    ("changes", "readiness", "because"),
    [
        ({}, Readiness.READY, []),
        ({"thinking": FAILED, "two_tools": PARTLY, "stop_sequence": FAILED}, Readiness.READY, []),
        ({"image": FAILED, "thinking": FAILED}, Readiness.LIMITED, ["image"]),
        ({"stream": PARTLY}, Readiness.LIMITED, ["stream"]),
        ({"tool_call": FAILED, "image": FAILED}, Readiness.UNUSABLE, ["tool_call"]),
    ],
)
def test_the_conclusion_follows_from_what_claude_code_needs(
    changes: dict[str, Verdict], readiness: Readiness, because: list[str]
) -> None:
    found = conclude(ALL_PASSED | changes)

    assert found.readiness is readiness
    assert [check.name for check in found.because] == because


def test_a_check_that_was_not_made_counts_as_failed() -> None:
    needed = [check for check in CHECKS if check.need is Need.NEEDED]

    assert list(conclude({}).because) == needed


def stream_of(*events: Any) -> bytes:
    return b"".join(b"event: x\ndata: %b\n\n" % orjson.dumps(event) for event in events)


def delta(index: int, **change: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": change}


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def end(reason: str, sequence: str | None = None) -> list[dict[str, Any]]:
    ending = {"stop_reason": reason, "stop_sequence": sequence}
    return [{"type": "message_delta", "delta": ending, "usage": {}}, {"type": "message_stop"}]


def test_a_stream_is_put_together() -> None:
    stream = stream_of(
        {"type": "message_start", "message": {}},
        start(0, type="thinking", thinking=""),
        delta(0, type="thinking_delta", thinking="Hm, "),
        delta(0, type="thinking_delta", thinking="well."),
        delta(0, type="signature_delta", signature="s"),
        start(1, type="text", text=""),
        delta(1, type="text_delta", text="Hel"),
        delta(1, type="text_delta", text="lo"),
        start(2, type="tool_use", id="t", name="f", input={}),
        delta(2, type="input_json_delta", partial_json='{"a":'),
        delta(2, type="input_json_delta", partial_json="1}"),
        start(3, type="tool_use", id="u", name="g", input={}),
        delta(3, type="input_json_delta", partial_json='{"a":'),
        start(4, type="tool_use", id="v", name="h", input={}),
        *end("stop_sequence", "HALT"),
    )

    heard = hear_stream(stream)

    assert (heard.text, heard.thinking, heard.text_deltas) == ("Hello", ["Hm, well."], 2)
    assert [(call["name"], call["input"]) for call in heard.calls] == [("f", {"a": 1}), ("g", {}), ("h", {})]
    assert (heard.stop_reason, heard.stop_sequence, heard.is_ended, heard.error) == ("stop_sequence", "HALT", True, "")


@pytest.mark.parametrize(
    "event",
    [
        delta(7, type="text_delta", text="for a block that never began"),
        {"type": "content_block_start", "index": 0},
        {"type": "unheard of"},
        ["no object"],
    ],
)
def test_what_makes_no_sense_in_a_stream_is_left_out(event: Any) -> None:
    heard = hear_stream(stream_of(event) + b"data: no json\n\n")

    assert (heard.content, heard.stop_reason, heard.is_ended, heard.error) == ([], None, False, "")


def test_an_error_within_a_stream_is_heard() -> None:
    heard = hear_stream(stream_of({"type": "error", "error": {"type": "api_error", "message": "gone"}}))

    assert heard.error == "api_error within the stream: gone"


def test_a_stream_that_can_not_be_read_is_an_error() -> None:
    assert hear_stream(b"data: " + b"x" * 2_000_000).error


def test_a_whole_message_is_heard() -> None:
    body = {"content": [{"type": "text", "text": "Hi"}, "nonsense"], "stop_reason": "end_turn", "stop_sequence": None}

    heard = hear_whole(orjson.dumps(body))

    assert (heard.text, heard.stop_reason, heard.is_ended, heard.error) == ("Hi", "end_turn", True, "")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"content": "text"}'])
def test_what_is_no_message_is_an_error(body: bytes) -> None:
    assert hear_whole(body).error


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, b'{"error": {"type": "invalid_request_error", "message": "no"}}', "400 invalid_request_error: no"),
        (502, b"<html>", "status 502"),
        (500, b'{"error": "odd"}', "status 500"),
    ],
)
def test_an_error_is_told_in_its_own_words(status: int, body: bytes, words: str) -> None:
    assert (hear_error(status, body).status, hear_error(status, body).error) == (status, words)


def test_a_long_error_is_cut() -> None:
    body = orjson.dumps({"error": {"type": "api_error", "message": "x" * 1000}})

    assert len(hear_error(500, body).error) == ERROR_CHARS_MAX
