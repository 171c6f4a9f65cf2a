"""Arguments as models write them, to JSON that any client reads: by the lexer, the writer and the tool's schema."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.core.emulation.arguments import ArgumentsWriter, strict_json
from translator.core.emulation.loose_lexer import LOOKAHEAD, MAX_DEPTH, LooseLexer
from translator.core.emulation.schema import types_of

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "map": {"type": "object"},
        "must": {"type": "string"},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "any": {},
    },
    "required": ["must"],
}


def write(text, *, step=None, is_untyped=False):
    """Return the JSON, the notes, and whether all of it was understood."""
    lexer, writer = LooseLexer(), ArgumentsWriter(SCHEMA, is_untyped=is_untyped)
    step = step or max(1, len(text))
    held, at, out = "", 0, ""
    for start in range(0, max(1, len(text)), step):
        held, at = held[at:] + text[start : start + step], 0
        while True:
            token, at = lexer.read(held, at, is_last=start + step >= len(text))
            if token is None:
                break
            writer.take(token)
        out += writer.ready()
    if not lexer.is_broken and not lexer.is_in_string:
        for token in lexer.close():
            writer.take(token)
        out += writer.ready()
    return out, sorted({*lexer.notes, *writer.notes}), lexer.is_done


def write_all_ways(text, **options):
    told = write(text, **options)
    for step in (1, 2, 3, 5):
        assert write(text, step=step, **options) == told, step
    return told


SOUND = {
    "an empty object": ("{}", "{}"),
    "white space": ('{ "any" : [ 1 , 2.5e3 , true , null ] }\n', '{"any":[1,2.5e3,true,null]}'),
    "nested": ('{"map":{"a":{"b":[{}]}},"list":[[]]}', '{"map":{"a":{"b":[{}]}},"list":[[]]}'),
    "escapes": (r'{"text":"a\"b\\c\/d\b\f\n\r\té"}', r'{"text":"a\"b\\c/d\b\f\n\r\té"}'),
    "a pair of halves": (r'{"text":"\ud83d\ude80"}', '{"text":"🚀"}'),
    "a half alone": (r'{"text":"\ud83d \ude80"}', '{"text":"\ufffd \ufffd"}'),
    "a half before an escape": (r'{"text":"\ud83d\n"}', r'{"text":"\ufffd\n"}'.replace(r"\ufffd", "\ufffd")),
    "a key with escapes": (r'{"a\"é":1}', r'{"a\"é":1}'),
    "a list": ('["a",{"b":1}]', '["a",{"b":1}]'),
    "what looks like an end in a string": ('{"text":"a}, \\"b\\": [</tool_call>","count":1}', '{"text":"a}, \\"b\\": [</tool_call>","count":1}'),
    "text that begins like JSON": ('{"text":"{","any":"[{","list":["{","a"],"either":"{ \\"a\\": 1}"}', '{"text":"{","any":"[{","list":["{","a"],"either":"{ \\"a\\": 1}"}'),
    "text in an array": ('{"list":["a","b"]}', '{"list":["a","b"]}'),
}  # fmt: skip


@pytest.mark.parametrize(("text", "out"), SOUND.values(), ids=SOUND)
def test_sound_json_is_kept(text, out):
    assert write_all_ways(text) == (out, [], True)


LOOSE = {
    "single quotes": ("{'text': 'a \"b\" \\'c\\' \\n \\u00e9 \\ud83d\\ude80 \\d'}", {"text": "a \"b\" 'c' \n é 🚀 \\d"}, ["tool_json_escapes", "tool_json_loose"]),
    "an apostrophe": ("{'text': 'it's', count: 1}", {"text": "it's", "count": 1}, ["tool_json_loose", "tool_json_quotes"]),
    "bare keys": ('{text: "a", count: 1}', {"text": "a", "count": 1}, ["tool_json_loose"]),
    "quotes among bare keys": ('{text: "a "b" c", count: 1}', {"text": 'a "b" c', "count": 1}, ["tool_json_loose", "tool_json_quotes"]),
    "Python's words": ('{"flag": True, "any": [None, False]}', {"flag": True, "any": [None, False]}, ["tool_json_loose"]),
    "bare words": ('{"text": hello world, "any": x}', {"text": "hello world", "any": "x"}, ["tool_json_loose"]),
    "a number that is none": ('{"any": 01, "text": 1.}', {"any": "01", "text": "1."}, ["tool_json_loose"]),
    "commas too many": ('{,"count": 1,, "list": [,1,,2,],}', {"count": 1, "list": [1, 2]}, ["tool_json_commas"]),
    "commas too few": ('{"list": [{"c": 1} [2]] "count": 1\n"any": 2}', {"list": [{"c": 1}, [2]], "count": 1, "any": 2}, ["tool_json_commas"]),
    "a comma too few between lines": ('{"text": "a"\n  "count": 1}', {"text": "a", "count": 1}, ["tool_json_commas"]),
    "a value too few": ('{"any": }', {"any": None}, ["tool_json_loose"]),
    "a value too few at the end": ('{"any": ', {"any": None}, ["tool_json_brackets"]),
    "brackets too few": ('{"map": {"a": [1', {"map": {"a": [1]}}, ["tool_json_brackets"]),
    "a mark for brackets": ('{"map": {"a": [1</tool_call>', {"map": {"a": [1]}}, ["tool_json_brackets"]),
    "a mark for a bracket": ('{"map": {"a": 1,\n```', {"map": {"a": 1}}, ["tool_json_brackets"]),
    "a mark after a string": ('{"text": "a"\n</tool_call>', {"text": "a"}, ["tool_json_brackets"]),
    "brackets too many": ('{"list": [1]], "count": 1}', {"list": [1], "count": 1}, ["tool_json_brackets"]),
    "the wrong bracket": ('{"list": [1}', {"list": [1]}, ["tool_json_brackets"]),
    "control characters": ('{"text": "a\nb\x01"}', {"text": "a\nb\x01"}, ["tool_json_escapes"]),
    "escapes that are none": ('{"text": "C:\\dir \\u12 \\\'"}', {"text": "C:\\dir \\u12 '"}, ["tool_json_escapes"]),
    "an escape in the end": ('{"text": "\\u12"}', {"text": "\\u12"}, ["tool_json_escapes"]),
    "quotes in text": ('{"text": "say "hi", then "ho".", "count": 1}', {"text": 'say "hi", then "ho".', "count": 1}, ["tool_json_quotes"]),
    "quotes in an array": ('{"list": ["say "hi" now", "b"]}', {"list": ['say "hi" now', "b"]}, ["tool_json_quotes"]),
    "a quote before a tag": ('{"text": "a "b"<c>", "count": 1}', {"text": 'a "b"<c>', "count": 1}, ["tool_json_quotes"]),
    "JSON in quotes": ('{"map": "{"a": "b"}", "list": "[{"c": 1}]", "count": 1}', {"map": {"a": "b"}, "list": [{"c": 1}], "count": 1}, ["tool_json_quotes"]),
    "JSON in quotes where text is wanted": ('{"text": "{"a": {"b": [1]}}"}', {"text": '{"a":{"b":[1]}}'}, ["tool_json_quotes", "tool_type_mended"]),
    "JSON in quotes, one of them missing": ('{"map": "{"a": 1}, "count": 1}', {"map": {"a": 1}, "count": 1}, ["tool_json_quotes"]),
    "a key with an odd escape": ('{"a\\d": 1}', {"a\\d": 1}, []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "value", "notes"), LOOSE.values(), ids=LOOSE)
def test_loose_json_is_understood(text, value, notes):
    out, found, is_done = write_all_ways(text)

    assert (json.loads(out), found) == (value, notes)
    assert is_done


BROKEN = {
    "words": "hello",
    "a string": '"a"',
    "a number for a key": "{1: 2}",
    "no colon": '{"a" "b"}',
    "a word after a value": '{"a": 1 {',
    "an object among keys": '{"a": {} {}}',
    "a colon for a value": '{"a": [:`]}',
    "a tick for a value": '{"a": `x`}',
    "a tag after a value": '{"a": 1<b>}',
    "a key that never ends": '{"a',
    "too deep": "[" * (MAX_DEPTH + 1),
    "a word too long": '{"a": ' + "x" * (LOOKAHEAD + 1),
    "a key too long": '{"' + "x" * LOOKAHEAD + '": 1}',
    "a key far too long": '{"' + "x" * LOOKAHEAD * 2,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_can_not_be_understood_breaks(text):
    assert not write(text)[2]
    assert write(text, step=1)[2] is False


def test_a_quote_is_decided_however_far_the_next_sign_is():
    for gap in (LOOKAHEAD - 2, LOOKAHEAD, LOOKAHEAD + 2):
        assert write_all_ways(f'{{"text": "a"{" " * gap}}}') == ('{"text":"a"}', [], True)


def test_half_a_string_stays_half():
    assert write_all_ways('{"text": "a') == ('{"text":"a', [], False)
    assert write_all_ways('{"text": "a\\') == ('{"text":"a\\\\', ["tool_json_escapes"], False)


TYPES = {
    "an integer": ('{"count": "5"}', {"count": 5}),
    "an integer with a point": ('{"count": 5.0, "any": 1}', {"count": 5, "any": 1}),
    "an integer in words": ('{"count": "five"}', {"count": "five"}),
    "a fraction for an integer": ('{"count": 5.5}', {"count": 5.5}),
    "a number": ('{"share": "-0.5"}', {"share": -0.5}),
    "a number in words": ('{"share": "half"}', {"share": "half"}),
    "a boolean": ('{"flag": "True"}', {"flag": True}),
    "a number for a boolean": ('{"flag": 1}', {"flag": 1}),
    "a list": ('{"list": "[1, 2]"}', {"list": [1, 2]}),
    "a list that is an object": ('{"list": "{}"}', {"list": "{}"}),
    "a list with more behind it": ('{"list": "[1] x"}', {"list": "[1] x"}),
    "an object": ('{"map": "{\'a\': 1}"}', {"map": {"a": 1}}),
    "an object in words": ('{"map": "none"}', {"map": "none"}),
    "nothing for a maybe": ('{"maybe": "None"}', {"maybe": None}),
    "text for an object": ('{"text": {"a": [1, {"b": "\\"c"}]}, "count": 1}', {"text": '{"a":[1,{"b":"\\"c"}]}', "count": 1}),
    "text for a list": ('{"text": [1]}', {"text": "[1]"}),
    "text for a number": ('{"text": 5}', {"text": "5"}),
    "text for true": ('{"text": true}', {"text": "true"}),
    "null for what may be left out": ('{"text": null, "count": null, "flag": true}', {"flag": True}),
    "null for all": ('{"text": null}', {}),
    "null for what must be there": ('{"must": null}', {"must": "null"}),
    "an object for a number": ('{"count": {}}', {"count": {}}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), TYPES.values(), ids=TYPES)
def test_an_argument_gets_the_type_of_the_schema(text, value):
    out, notes, is_done = write_all_ways(text)

    assert json.loads(out) == value
    assert is_done
    assert set(notes) <= {"tool_type_mended", "tool_json_loose"}
    assert write(text, is_untyped=True)[0] == out


FITTING = ['{"maybe":null}', '{"maybe":1}', '{"either":"5"}', '{"either":5}', '{"share":5}', '{"flag":false}', '{"any":"5"}', '{"other":"5"}', '{"map":{"count":"5"}}']  # fmt: skip


@pytest.mark.parametrize("text", FITTING)
def test_what_fits_the_schema_is_left_alone(text):
    assert write_all_ways(text) == (text, [], True)


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": ["string", 5]}, {"string"}),
        ({"type": "date"}, set()),
        ({"oneOf": [{"type": "string"}, {"type": "array"}]}, {"string", "array"}),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/x"}]}, set()),
        ({"anyOf": []}, set()),
        ({"enum": ["a", "b"]}, {"string"}),
        ({"enum": ["a", 1]}, set()),
        ({"$ref": "#/x"}, set()),
        (None, set()),
    ],
)
def test_the_types_of_a_schema(schema, types):
    assert types_of(schema) == types


@pytest.mark.parametrize("schema", [{}, {"properties": [1]}, {"properties": {}, "required": "text"}])
def test_a_schema_that_says_nothing_mends_nothing(schema):
    writer = ArgumentsWriter(schema)
    lexer, at = LooseLexer(), 0
    text = '{"text":5,"list":"[1]"}'
    while not lexer.is_done:
        token, at = lexer.read(text, at, is_last=True)
        writer.take(token)

    assert writer.ready() == text


@pytest.mark.parametrize("text", ["", "5", "[1", "[1] [2]", "{5}"])
def test_what_is_not_one_value_is_none(text):
    assert strict_json(text) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(value=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9), JSON, max_size=4), indent=st.sampled_from([None, 2]), is_ascii=st.booleans(), step=st.integers(1, 9))  # fmt: skip
def test_sound_json_means_what_it_meant(value, indent, is_ascii, step):
    text = json.dumps({"map": value}, indent=indent, ensure_ascii=is_ascii)
    out, notes, is_done = write(text, step=step)

    assert json.loads(out) == {"map": value}
    assert (notes, is_done) == ([], True)
