"""What is passed on of tool arguments is the beginning of a JSON object, at any time."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.core.tool_json import MAX_DEPTH, ObjectReader, parse_partial, settle_arguments

SOUND = [
    "{}",
    "{ }",
    '{"a":1}',
    '{"a" : -1.5e+10 , "b":[1,2,{"c":null}],"d":[]}',
    '{"a":true,"b":false,"c":"x\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9"}',
    '{"":{"":{}},"é":"雨🚀"}',
    '{"a":"\\ud83d\\ude80"}',
    '{"a":0}',
    '{"a":-0.0,"b":1E5}',
]
REPAIRED = {
    ' \n{"a":1}': '{"a":1}',
    '{"a":1} \n': '{"a":1}',
    '{"a":1}{"a":1}': '{"a":1}',
    '{"a":1}</tool>': '{"a":1}',
    '{"a":"x\ny\tz\x01"}': '{"a":"x\\ny\\tz\\u0001"}',
    '{"a":"\\ud83d"}': '{"a":"\\ufffd"}',
    '{"a":"\\ud83dx"}': '{"a":"\\ufffdx"}',
    '{"a":"\\ud83d\\n"}': '{"a":"\\ufffd\\n"}',
    '{"a":"\\ud83d\\ud83d\\ude80"}': '{"a":"\\ufffd\\ud83d\\ude80"}',
    '{"a":"\\ude80"}': '{"a":"\\ufffd"}',
}
BROKEN = [
    "[1]",
    "null",
    "'",
    "x",
    "{'a':1}",
    '{"a" 1}',
    '{"a":}',
    '{"a":1,}',
    '{"a":[1,]}',
    '{"a":[}',
    '{"a":[1}',
    '{"a":1]',
    '{"a":"x" "y"}',
    '{"a":None}',
    '{"a":truee}',
    '{"a":tru}',
    '{"a":01}',
    '{"a":1.}',
    '{"a":1.e5}',
    '{"a":-}',
    '{"a":+1}',
    '{"a":1e}',
    '{"a":"\\x"}',
    '{"a":"\\u00g0"}',
    '{"a":' + "1" * 500 + "}",
    '{"a":' + "[" * MAX_DEPTH,
    "{,}",
    "{1:2}",
]


def read(text: str, *, step: int) -> tuple[str, ObjectReader]:
    reader = ObjectReader()
    return "".join(reader.feed(text[i : i + step]) for i in range(0, len(text), step)), reader


@pytest.mark.parametrize("text", SOUND)
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_a_sound_object_passes_unchanged(text, step):
    accepted, reader = read(text, step=step)

    assert accepted == text
    assert reader.is_complete
    assert reader.size == len(text)
    assert not reader.is_broken


@pytest.mark.parametrize("text", REPAIRED)
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_what_can_be_repaired_is(text, step):
    accepted, reader = read(text, step=step)

    assert accepted == REPAIRED[text]
    assert reader.is_complete


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_a_broken_object_is_found_out(text, step):
    accepted, reader = read(text, step=step)

    assert reader.is_broken
    assert text.startswith(accepted)
    assert reader.feed("}") == ""


@pytest.mark.parametrize("text", SOUND)
def test_each_beginning_of_a_sound_object_is_accepted(text):
    for end in range(len(text)):
        reader = ObjectReader()
        reader.feed(text[:end])

        assert not reader.is_broken
        assert not reader.is_complete
        assert reader.is_begun == (end > 0)


def test_the_first_key_is_known_at_its_colon():
    reader = ObjectReader()

    assert not (reader.feed('{"a"') and reader.has_key)
    assert reader.feed(" :") == " :"
    assert reader.has_key


WHOLE = {
    "nothing is no input": ("", {}),
    "white space is no input": (" \n", {}),
    "null is no input": ("null", {}),
    "an object": ('{"a":1}', {"a": 1}),
    "an object and garbage": ('{"a":1}]x', {"a": 1}),
    "an object twice": ('{"a":1}{"a":1}', {"a": 1}),
    "an empty object before the real one": ('{}{"a":1}', {"a": 1}),
    "an empty object twice": ("{} {}", {}),
    "an object in a string": ('"{\\"a\\":1}"', {"a": 1}),
    "a raw line break": ('{"a":"x\ny"}', {"a": "x\ny"}),
    "a string": ('"ls"', {"INVALID_JSON": '"ls"'}),
    "an array": ("[1]", {"INVALID_JSON": "[1]"}),
    "a number": ("12", {"INVALID_JSON": "12"}),
    "python": ("{'a': 1}", {"INVALID_JSON": "{'a': 1}"}),
    "cut": ('{"a": "x', {"INVALID_JSON": '{"a": "x'}),
    "words": ("rm -rf", {"INVALID_JSON": "rm -rf"}),
    "half an emoji": ('{"a":"\ud83d"}', {"a": "\ufffd"}),
    "half an emoji in words": ("\ud83d", {"INVALID_JSON": "\ufffd"}),
    "a huge integer": ('{"a":' + "9" * 30 + "}", {"a": 1e30}),
    "deep": ("[" * 100_000, {"INVALID_JSON": "[" * 100_000}),
    "deep and sound": ("[" * 5000 + "]" * 5000, {"INVALID_JSON": "[" * 5000 + "]" * 5000}),
}


@pytest.mark.parametrize("rule", WHOLE)
def test_whole_arguments_become_an_object(rule):
    raw, expected = WHOLE[rule]

    assert settle_arguments(raw) == expected


TRUNCATED = {
    '{"a":1,"b":"x': {"a": 1},
    '{"a":{"b":1},"c':  {"a": {"b": 1}},
    '{"a":[1],"c":12': {"a": [1]},
    '{"a":true,': {"a": True},
    '{"a': {},
    "{": {},
    '{"a":"b"': {"a": "b"},
}  # fmt: skip


@pytest.mark.parametrize("raw", TRUNCATED)
def test_complete_pairs_of_cut_arguments_are_kept(raw):
    assert settle_arguments(raw, is_truncated=True) == TRUNCATED[raw]
    assert parse_partial(raw) == TRUNCATED[raw]


def test_broken_arguments_are_not_kept_though_cut():
    assert settle_arguments("{'a':1,", is_truncated=True) == {"INVALID_JSON": "{'a':1,"}


@pytest.mark.parametrize(("text", "expected"), [("", {}), ("{}", {}), ('{"a":1}', {"a": 1})])
def test_a_whole_object_is_its_own_beginning(text, expected):
    assert parse_partial(text) == expected


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(value=st.dictionaries(st.text(), JSON_VALUES, max_size=4), is_ascii=st.booleans(), step=st.integers(1, 7))
def test_any_object_passes_in_any_split(value, is_ascii, step):
    text = json.dumps(value, ensure_ascii=is_ascii)
    accepted, reader = read(text, step=step)

    assert reader.is_complete
    assert json.loads(accepted) == value


@given(text=st.text(alphabet='{}[]",:\\ u0129dDtrue-.eE\n\ud83d') | st.text())
def test_any_text_is_settled(text):
    assert isinstance(settle_arguments(text), dict)
    assert isinstance(settle_arguments(text, is_truncated=True), dict)
    assert isinstance(parse_partial(text), dict)


@given(text=st.text(alphabet='{}[]",:\\ u0129dtrue-.eE\n'), step=st.integers(1, 5))
def test_what_is_accepted_does_not_depend_on_the_split(text, step):
    whole, split = read(text, step=1000), read(text, step=step)

    assert whole[0] == split[0]
    assert whole[1].is_broken == split[1].is_broken
    assert whole[1].is_complete == split[1].is_complete


@given(text=st.text(alphabet='{}[]",:\\ u0129dtrue-.eE\n'))
def test_a_complete_object_is_json(text):
    accepted, reader = read(text, step=1000)

    if reader.is_complete:
        assert isinstance(json.loads(accepted), dict)
