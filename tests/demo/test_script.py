"""The mini language: what a word means, and that none is passed over."""

import pytest

from demo.script import Fault, Script, ScriptError, parse_script, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("script/ok", Script()),
        ("script/", Script()),
        ("ok,frames=40,gap=20ms", Script(frames=40, gap=0.02)),
        ("cut", Script(fault=Fault.CUT)),
        ("cut,frame=7", Script(fault=Fault.CUT, frame=7)),
        ("reset,byte=731", Script(fault=Fault.RESET, byte=731)),
        ("eof", Script(fault=Fault.EOF, frame=3)),
        ("malformed,frame=2", Script(fault=Fault.MALFORMED, frame=2)),
        ("errorframe=429", Script(fault=Fault.ERROR_FRAME, frame=3, code="429")),
        ("error200", Script(fault=Fault.ERROR_200)),
        ("bigframe=500", Script(fault=Fault.BIG_FRAME, frame=3, bigframe=500)),
        ("pings=4", Script(fault=Fault.PINGS, pings=4)),
        ("think", Script(think="reasoning_content")),
        ("think=reasoning,tools=2,interleaved", Script(think="reasoning", tools=2, interleaved=True)),
        ("drip", Script(drip=0.5)),
        ("usage=-5,nousage", Script(usage=-5, nousage=True)),
        ("usage=many", Script(usage="many")),
        ("flap=2/5,status=500", Script(flap=(2, 5), status=500)),
        ("message=too+many%2C+come+again,status=429", Script(message="too many, come again", status=429)),
        ("redirect=http://127.0.0.1:1/x?a=b", Script(redirect="http://127.0.0.1:1/x?a=b")),
    ],
)
def test_a_script_is_read(text: str, expected: Script) -> None:
    assert parse_script(text) == expected


@pytest.mark.parametrize(
    "text", ["cutt", "frame", "frames=many", "crlf=1", "cut=3", "flap=3", "gap=soon", "ok,,status=4x"]
)
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ScriptError):
        parse_script(text)


@pytest.mark.parametrize(
    ("text", "is_before"),
    [("cut", True), ("silent", True), ("cut,frame=0", False), ("reset,byte=0", False), ("eof", False)],
)
def test_a_fault_without_a_place_comes_in_place_of_the_answer(text: str, is_before: bool) -> None:
    assert parse_script(text).is_before_head() is is_before


def test_times_have_units() -> None:
    assert [seconds(text) for text in ("20ms", "1.5s", "2")] == [0.02, 1.5, 2.0]
