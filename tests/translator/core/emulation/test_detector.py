"""Calls in the text of models: each form, each repair, and what is none."""

# ruff: noqa: RUF001  # the bars in DeepSeek's tokens are of full width

import pytest

from tests.translator.core.emulation.texts import read, read_all_ways
from translator.core.emulation.calls import Part, Tools
from translator.core.emulation.detector import Detector
from translator.core.emulation.kinds import REPAIRS as KINDS
from translator.core.emulation.loose_lexer import LOOKAHEAD
from translator.core.emulation.region import MAX_HELD

A = ("Read", {"path": "a"})
LS = ("Bash", {"command": "ls"})
CALL_A = '{"name": "Read", "arguments": {"path": "a"}}'
CALL_LS = '{"name": "Bash", "arguments": {"command": "ls"}}'


def tag(json: str) -> str:
    return f"<tool_call>\n{json}\n</tool_call>"


FORMS = {
    "the form asked for": (tag(CALL_A), [A]),
    "after words": (f"Let me look.\n{tag(CALL_A)}", ["Let me look.\n", A]),
    "on the words' line": (f"Look: {tag(CALL_A)}", ["Look: ", A]),
    "several": (f"{tag(CALL_A)}\n{tag(CALL_LS)}", [A, LS]),
    "several in one tag": (f"<tool_call>\n{CALL_A}\n{CALL_LS}\n</tool_call>", [A, LS]),
    "words in between": (f"{tag(CALL_A)}\nAnd\n{tag(CALL_LS)}\nDone.", [A, "And\n", LS, "Done."]),
    "a list in the tag": (f"<tool_calls>[{CALL_A}, {CALL_LS}]</tool_calls>", [A, LS]),
    "a fence in the tag": (f"<tool_call>\n```json\n{CALL_A}\n```\n</tool_call>", [A]),
    "a fence without a language in the tag": (f"<tool_call>```\n{CALL_A}```</tool_call> x", [A, "x"]),
    "a fence of JSON": (f"```json\n{CALL_A}\n```", [A]),
    "a fence without a language": (f"```\n{CALL_A}\n```\n", [A]),
    "a fence with a list": (f"```json\n[\n{CALL_A},\n{CALL_LS}\n]\n```", [A, LS]),
    "a fence of another name": (f"``` tool_call\n{CALL_A}\n```", [A]),
    "a fence after words, at the end": (f"I read it:\n```json\n{CALL_A}\n```\n", ["I read it:\n", A]),
    "a fence after words, not closed": (f"I read it:\n```json\n{CALL_A}", ["I read it:\n", A]),
    "two fences": (f"I do:\n```json\n{CALL_A}\n```\n\n```json\n{CALL_LS}\n```", ["I do:\n", A, LS]),
    "words after a fence at the beginning": (f"```json\n{CALL_A}\n```\nNow I wait.", [A, "Now I wait."]),
    "bare": (CALL_A, [A]),
    "bare after words": (f"I read it.\n\n{CALL_A}\n", ["I read it.\n\n", A]),
    "bare, several": (f"{CALL_A}\n{CALL_LS}\nok", [A, LS, "ok"]),
    "a bare list": (f"[{CALL_A},{CALL_LS}]", [A, LS]),
    "a bare list, then words in brackets": (f"{CALL_A}\n[see]", [A, "[see]"]),
    "the list of chat completions": ('{"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{\\"path\\": \\"a\\"}"}}]}', [A]),
    "one call in the key of many": ('{"tool_calls": {"name": "Read", "arguments": {"path": "a"}}}', [A]),
    "Hermes in another tag": (f"<function_call>{CALL_A}</function_call>", [A]),
    "Qwen's coder": ("<tool_call>\n<function=Bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>", [LS]),
    "Qwen's coder without the tag": ("<function=Bash><parameter=command>ls</parameter></function>", [LS]),
    "Llama": ('<function=Read>{"path": "a"}</function>', [A]),
    "Llama's token": (f"<|python_tag|>{CALL_A}<|eom_id|>", [A]),
    "invoke": ('<function_calls>\n<invoke name="Read">\n<parameter name="path">a</parameter>\n</invoke>\n</function_calls>', [A]),
    "invoke, twice": ('<invoke name="Read"><parameter name="path">a</parameter></invoke><invoke name="Bash"><parameter name="command">ls</parameter></invoke>', [A, LS]),
    "MiniMax": ('<minimax:tool_call>\n<invoke name="Read">\n<parameter name="path">a</parameter>\n</invoke>\n</minimax:tool_call>', [A]),
    "DeepSeek's markup": ('<｜DSML｜function_calls>\n<｜DSML｜invoke name="Read">\n<｜DSML｜parameter name="path" string="true">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>', [A]),
    "DeepSeek's markup with plain bars": ('<|DSML|function_calls><|DSML|invoke name="Read"><|DSML|parameter name="path">a</|DSML|parameter></|DSML|invoke></|DSML|function_calls>', [A]),
    "DeepSeek's tokens": ('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>Read<｜tool▁sep｜>{"path":"a"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>Bash<｜tool▁sep｜>{"command":"ls"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', [A, LS]),
    "DeepSeek's older tokens": ('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>Read\n```json\n{"path":"a"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>ok', [A, "ok"]),
    "DeepSeek's tokens in plain characters": ('<|tool_calls_begin|><|tool_call_begin|>Read<|tool_sep|>{"path":"a"}<|tool_call_end|><|tool_calls_end|>', [A]),
    "Kimi": ('<|tool_calls_section_begin|><|tool_call_begin|>functions.Read:0<|tool_call_argument_begin|>{"path":"a"}<|tool_call_end|><|tool_calls_section_end|>', [A]),
    "GLM": ("<tool_call>Bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>\n<tool_call>Read<arg_key> path </arg_key><arg_value>a</arg_value></tool_call>", [LS, A]),
    "a name on a line of its own": ('<tool_call>\nRead\n{"path": "a"}\n</tool_call>', [A]),
    "Mistral's list": (f"[TOOL_CALLS][{CALL_A}, {CALL_LS}]</s>", [A, LS]),
    "Mistral": ('[TOOL_CALLS]Read[ARGS]{"path": "a"}[TOOL_CALLS]Bash[CALL_ID]x1[ARGS]{"command": "ls"}', [A, LS]),
    "Mistral without a mark before the arguments": ('[TOOL_CALLS]Read{"path": "a"}', [A]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), FORMS.values(), ids=FORMS)
def test_a_call_is_found_in_the_form_of(text, told):
    assert read_all_ways(text)[0] == told


NONE = {
    "words": "Hello.\nHow are you?\n",
    "nothing": "",
    "inline code": f"Write `<tool_call>{CALL_A}</tool_call>`, or ``<tool_call> `x` ``.",
    "a fence of markup": f"Like so:\n```xml\n<tool_call>{CALL_A}</tool_call>\n```\nNothing more.",
    "a longer fence": f"````md\n```json\n{CALL_A}\n```\n````",
    "a fence that goes on being explained": f"For example:\n```json\n{CALL_A}\n```\nThat reads a file.",
    "a fence with a list that is explained": f"For example:\n```json\n[{CALL_A}, {CALL_LS}]\n```\nThat does both.",
    "a fence with other JSON": 'A file:\n```json\n{"name": "x", "version": 1}\n```\n',
    "a fence with the name of a tool": '```json\n{"name": "Read", "version": 1}\n```\n',
    "an empty fence": "```json\n```\n```\n\n```",
    "a fence of code": "```python\n{1}\n```\n",
    "a fence of a language that begins alike": "```js\n{1}\n```\n```jsonl\n{}\n```",
    "a fence with a list of numbers": "```json\n[1, 2]\n```",
    "JSON in a line": f"See {CALL_A}",
    "other JSON": '{"a": {"b": [1, "c"]}}\n[{"a": 1}]\n[1]\n{',
    "JSON with the name of no tool": '{"name": "Write", "arguments": {}}',
    "a tool's description": '{"name": "Read", "description": "Reads.", "parameters": {"type": "object"}}',
    "arguments without a name": '{"arguments": {"path": "a"}}',
    "arguments, and something else": '{"arguments": {"path": "a"}, "x": 1}',
    "a name without what the tool demands": '{"name": "Read"}',
    "a list that ends without a name": '[{"arguments": {"path": "a"}',
    "a list of words": '[{"name": ["Read"]}]',
    "code": "if (a < b) {\n  c[0] = `x`;\n}\n",
    "a link": "[here](https://example.com)\n\n[x]: y",
    "a closing tag": "</tool_call> </invoke>",
    "a tag like another": "<tool_called> <function> <invoked> <toolbox>",
    "ticks at the end": "a ``",
    "a result in words": "The <tool_response> comes next.",
}


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_no_call_is_found_in(text):
    assert read_all_ways(text) == ([text] if text else [], [])


REJECTED = {
    "a name that nobody offered": tag('{"name": "Write", "arguments": {"path": "a"}}'),
    "no name": tag('{"arguments": {"path": "a"}}'),
    "a name that is a number": tag('{"name": 5, "arguments": {"path": "a"}}'),
    "a name and other things": tag('{"name": "Read", "x": 1, "y": 2}').replace('"Read"', '"Red"'),
    "words in the tag": "<tool_call> is how it begins.\n\nSo.",
    "a tag in the middle of words": "The tag <tool_call> begins a call, and </tool_call> ends it.",
    "a list of words in the tag": '<tool_calls>["a"]</tool_calls>',
    "broken JSON": "<tool_call>{5}</tool_call>",
    "broken JSON within a string": '<tool_call>{"name": "Read',
    "a function that nobody offered": "<function=Write><parameter=path>a</parameter></function>",
    "a tag of a function that never ends": "<function=\n",
    "a tag of a function that is too long": f"<function={'x' * 400}>",
    "a tag of a function over two lines": "<function=\nBash>ls</function>",
    "a tag of a function, and the end": "<function=Rea",
    "a named call that nobody offered": '[TOOL_CALLS]Write[ARGS]{"path": "a"}',
    "a name without arguments": "[TOOL_CALLS]Read and more",
    "a name too long": f"[TOOL_CALLS]{'x' * 400}",
    "a fence that does not begin JSON": "<tool_call>```python\nx```",
    "a tick": "<tool_call>`",
    "two tags": "<tool_call><tool_call>x",
}


@pytest.mark.parametrize("text", REJECTED.values(), ids=REJECTED)
def test_what_is_no_call_of_an_offered_tool_is_text(text):
    assert read_all_ways(text) == ([text], ["tool_call_rejected"])


def test_a_call_before_one_that_is_none_stays_a_call():
    bad = '{"name": "Write", "arguments": {}}'

    assert read_all_ways(tag(CALL_A) + tag(bad)) == ([A, f"{bad}\n</tool_call>"], ["tool_call_rejected"])
    assert read_all_ways(f"[{CALL_A}, {bad}, {CALL_LS}] x") == ([A, f"{bad}, {CALL_LS}] x"], [])
    assert read_all_ways(f"[{CALL_A}, 5]")[0] == [A, "]"]


def test_after_what_is_none_a_call_is_still_found():
    assert read_all_ways(f"<tool_call>no\n{tag(CALL_A)}")[0] == ["<tool_call>no\n", A]
    assert read_all_ways(f"x\n```json\n{CALL_A}\n```\nor\n{tag(CALL_LS)}")[0] == [
        f"x\n```json\n{CALL_A}\n```\nor\n",
        LS,
    ]


def test_code_after_a_call_stays_whole():
    code = "```python\nx = {1}\n```\nThat's it."

    assert read_all_ways(f"{tag(CALL_A)}\n{code}")[0] == [A, code]
    assert read_all_ways(f"{CALL_A}\n{code}")[0] == [A, code]


REPAIRS = {
    "single quotes": (tag("{'name': 'Read', 'arguments': {'path': 'a'}}"), [A], ["tool_json_loose"]),
    "bare keys": (tag('{name: "Read", arguments: {path: "a"}}'), [A], ["tool_json_loose"]),
    "arguments as a string": (tag('{"name": "Read", "arguments": "{\\"path\\": \\"a\\"}"}'), [A], ["tool_arguments_quoted"]),
    "arguments as a string with bare quotes": (tag('{"name": "Read", "arguments": "{"path": "a"}"}'), [A], ["tool_json_quotes"]),
    "several arguments as a string with bare quotes": (tag('{"name": "Read", "arguments": "{"path": "a", "limit": 5}", "id": 1}'), [("Read", {"path": "a", "limit": 5})], ["tool_json_quotes"]),
    "arguments with the first of two quotes": (tag('{"name": "Read", "arguments": "{"path": "a"}}'), [A], ["tool_json_quotes"]),
    "arguments as an empty string": (tag('{"name": "list-files", "arguments": ""}'), [("list-files", {})], ["tool_arguments_quoted"]),
    "arguments as a string, not closed": (tag('{"name": "Read", "arguments": "{\\"path\\": \\"a\\""}'), [A], ["tool_arguments_quoted", "tool_json_brackets"]),
    "arguments as a string, twice": (tag('{"name": "Read", "arguments": "{\\"path\\": \\"a\\"} {\\"b\\": 1}"}'), [A], ["tool_arguments_quoted"]),
    "null for arguments": (tag('{"name": "list-files", "arguments": null}'), [("list-files", {})], []),
    "no arguments": (tag('{"name": "list-files"}'), [("list-files", {})], []),
    "no arguments, bare": ('{"tool": "list-files"}', [("list-files", {})], []),
    "arguments before the name": (tag('{"arguments": {"path": "a"}, "name": "Read"}'), [A], []),
    "arguments before the name, bare": ('{"arguments": {"path": "a"}, "name": "Read"}', [A], []),
    "null before the name": (tag('{"arguments": null, "name": "list-files"}'), [("list-files", {})], []),
    "arguments beside the name": (tag('{"name": "Read", "path": "a"}'), [A], ["tool_arguments_spilled"]),
    "arguments in both places": (tag('{"name": "Read", "arguments": {"path": "a"}, "path": "b"}'), [A], []),
    "arguments twice": (tag('{"name": "Read", "arguments": {"path": "a"}, "arguments": {"path": "b"}}'), [A], []),
    "a description as well": ('{"name": "Read", "arguments": {"path": "a"}, "description": "x"}', [A], []),
    "calls within a call": (tag('{"name": "Read", "arguments": {"path": "a"}, "calls": [{"name": "Read", "arguments": {}}]}'), [A], []),
    "other names for both": ('{"tool": "Read", "args": {"path": "a"}}', [A], []),
    "still others": (tag('{"function_name": "Read", "parameters": {"path": "a"}}'), [A], []),
    "a function by its name": (tag('{"function": "Read", "input": {"path": "a"}}'), [A], []),
    "a function within": (tag('{"type": "function", "function": {"name": "Read", "arguments": {"path": "a"}}}'), [A], []),
    "another case": (tag('{"name": "read", "arguments": {"path": "a"}}'), [A], ["tool_name_mended"]),
    "another dash": (tag('{"name": "list_files"}'), [("list-files", {})], ["tool_name_mended"]),
    "a name with what stands before it": (tag('{"name": "functions.Read", "arguments": {"path": "a"}}'), [A], ["tool_name_mended"]),
    "a number as a string": (tag('{"name": "Read", "arguments": {"path": "a", "limit": "5"}}'), [("Read", {"path": "a", "limit": 5})], ["tool_type_mended"]),
    "a bracket too few": (tag('{"name": "Read", "arguments": {"path": "a"}'), [A], ["tool_json_brackets"]),
    "two brackets too few": (tag('{"name": "Read", "arguments": {"path": "a"'), [A], ["tool_json_brackets"]),
    "a bracket too few, then words": ('{"name": "Read", "arguments": {"path": "a"}\nNow wait.', [A, "Now wait."], ["tool_json_brackets"]),
    "a bracket too few at the end": ('{"name": "Read", "arguments": {"path": "a"}', [A], ["tool_json_brackets"]),
    "a bracket too many": (f"{tag(CALL_A + '}')}", [A], []),
    "a bracket of the wrong kind": (tag('{"name": "Read", "arguments": {"path": "a"]}}'), [A], ["tool_json_brackets"]),
    "no end of the tag": (f"<tool_call>{CALL_A}", [A], []),
    "a line break in a string": (tag('{"name": "Bash", "arguments": {"command": "a\nb"}}'), [("Bash", {"command": "a\nb"})], ["tool_json_escapes"]),
    "quotes that nobody escaped": (tag('{"name": "Bash", "arguments": {"command": "echo "a" b"}}'), [("Bash", {"command": 'echo "a" b'})], ["tool_json_quotes"]),
    "JSON that nobody escaped": (tag('{"name": "Bash", "arguments": {"command": "x = {"a": "b"}"}}'), [("Bash", {"command": 'x = {"a": "b"}'})], ["tool_json_quotes"]),
    "arguments that are a list": (tag('{"name": "Read", "arguments": [1]}') + " x", [("Read", {"INVALID_JSON": "[1]"}), "x"], ["tool_json_invalid"]),
    "arguments that are a list, before the name": (tag('{"arguments": [1], "name": "Read"}'), [("Read", {"INVALID_JSON": "[1]"})], ["tool_json_invalid"]),
    "arguments that are words": (tag('{"name": "Bash", "arguments": "ls -l"}'), [("Bash", {"INVALID_JSON": "ls -l"})], ["tool_arguments_quoted", "tool_json_invalid"]),
    "arguments that make no sense": (tag('{"name": "Read", "arguments": {"path" 5}}') + " x", [("Read", {"INVALID_JSON": '{"path" 5}}'}), "x"], ["tool_json_invalid"]),
    "arguments that make no sense, to the end": ('<tool_call>{"name": "Read", "arguments": {"path" 5}}', [("Read", {"INVALID_JSON": '{"path" 5}}'})], ["tool_json_invalid"]),
    "a string of arguments that ends in itself": ('<tool_call>{"name": "Read", "arguments": "{', [("Read", {"INVALID_JSON": '"{'})], ["tool_arguments_quoted", "tool_json_invalid"]),
    "named arguments that make no sense": ('[TOOL_CALLS]Read[ARGS]{"path" 5}</tool_call>', [("Read", {"INVALID_JSON": '{"path" 5}'})], ["tool_json_invalid"]),
    "a tag that never ends within a call": ("<function=Read>\n<parameter=path\n</function>x", [("Read", {"INVALID_JSON": "<parameter=path"}), "x"], ["tool_json_invalid"]),
    "a key that never ends": ("<tool_call>Read<arg_key>path</tool_call>x", [("Read", {"INVALID_JSON": "<arg_key>path"}), "x"], ["tool_json_invalid"]),
    "a key that is too long": (f"<tool_call>Read<arg_key>{'x' * 400}</tool_call>", [("Read", {"INVALID_JSON": f"<arg_key>{'x' * 400}"})], ["tool_json_invalid"]),
    "no end of GLM's value": ("<tool_call>Bash<arg_key>command</arg_key><arg_value>ls</arg_value>", [LS], []),
    "JSON in a tag that makes no sense": ("<function=Read>{5}</function>", [("Read", {"INVALID_JSON": "{5}"})], ["tool_json_invalid"]),
    "JSON in a tag, a bracket too few": ('<function=Read>{"path": "a"</function>', [A], ["tool_json_brackets"]),
    "JSON in a tag, and the end": ('<function=Read>{"path": "a"', [A], ["tool_json_brackets", "tool_tag_unclosed"]),
    "named arguments, a bracket too few": ('[TOOL_CALLS]Read[ARGS]{"path": "a"', [A], ["tool_json_brackets"]),
    "no end of a value": ("<tool_call><function=Bash><parameter=command>ls</function></tool_call>", [LS], ["tool_tag_unclosed"]),
    "no end of a value, at the end": ("<function=Bash><parameter=command>\nls\n</function>", [LS], ["tool_tag_unclosed"]),
    "no end of a function": ("<tool_call><function=Bash><parameter=command>ls</parameter></tool_call>", [LS], ["tool_tag_unclosed"]),
    "no end of a function, at the end": ("<function=Bash><parameter=command>ls</parameter>", [LS], ["tool_tag_unclosed"]),
    "a function without arguments": ("<function=list-files></function>", [("list-files", {})], []),
    "words after arguments": ("<function=Bash><parameter=command>ls</parameter>so", [LS, "so"], ["tool_tag_unclosed"]),
    "JSON after arguments": ('<function=Bash><parameter=command>ls</parameter>{"a": 1}', [LS, '{"a": 1}'], ["tool_call_rejected", "tool_tag_unclosed"]),
    "results that the model made up": (f"{tag(CALL_A)}\n<tool_response>\nx\n</tool_response>\nSo it is.", [A], ["tool_response_invented"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told", "notes"), REPAIRS.values(), ids=REPAIRS)
def test_a_call_is_repaired(text, told, notes):
    assert read_all_ways(text) == (told, notes)


VALUES = {
    "of several lines": ("\n\na\n\nb\n\n", "\na\n\nb\n"),
    "on the tags' lines": ("a\n", "a\n"),
    "empty": ("", ""),
    "a line break": ("\n", ""),
    "with tags in it": ("a <b>c</b> </function> d <parameter=e>", "a <b>c</b> </function> d <parameter=e>"),
    "with the beginning of an end": ("</param", "</param"),
    "with quotes and backslashes": ('"\\n" \t', '"\\n" \t'),
}


@pytest.mark.parametrize(("written", "meant"), VALUES.values(), ids=VALUES)
def test_a_value_in_tags_is_its_text(written, meant):
    text = f"<function=Bash><parameter=command>{written}</parameter></function>"

    assert read_all_ways(text) == ([("Bash", {"command": meant})], [])


def test_values_in_tags_get_the_types_of_the_schema_without_a_note():
    text = (
        "<function=Bash><parameter=command>5</parameter><parameter=timeout> 1.5 </parameter>"
        "<parameter=background>True</parameter><parameter=else>7</parameter></function>"
    )

    told = [("Bash", {"command": "5", "timeout": 1.5, "background": True, "else": "7"})]
    assert read_all_ways(text) == (told, [])


CUTS = {
    "before the name": ('<tool_call>{"na', ['<tool_call>{"na'], False),
    "after the name": ('<tool_call>{"name": "Read", ', [("Read", {})], True),
    "in the arguments": ('<tool_call>{"name": "Read", "arguments": {"path": "ab', [("Read", '{"path":"ab')], True),
    "in a value": ("<function=Bash><parameter=command>ls -", [("Bash", '{"command":"ls -')], True),
    "after a call": (f"<tool_call>{CALL_A}", [A], False),
    "in arguments that make no sense": ('<tool_call>{"name": "Read", "arguments": {5', [("Read", {"INVALID_JSON": "{5"})], False),
    "in arguments before the name": ('<tool_call>{"arguments": {"path": "a', ['<tool_call>{"arguments": {"path": "a'], False),
    "in an example": (f"So:\n```json\n{CALL_A[:-5]}", [f"So:\n```json\n{CALL_A[:-5]}"], False),
    "after an example": (f"So:\n```json\n{CALL_A}\n`", ["So:\n", A], False),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told", "is_cut"), CUTS.values(), ids=CUTS)
def test_an_answer_that_ran_out_of_tokens_ends(text, told, is_cut):
    assert read_all_ways(text, is_truncated=True)[0] == told
    assert read(text, is_truncated=True)[2].calls.is_cut is is_cut


HALF = {
    "a string in a fence": '```json\n{"name": "Read", "arguments": {"path": "a',
    "a string": '<tool_call>{"name": "Read", "arguments": {"path": "ab',
    "a string in a string": '<tool_call>{"name": "Read", "arguments": "{\\"path\\": \\"ab',
    "a string that makes no sense after a part": '<tool_call>{"name": "Read", "arguments": "{\\"limit\\": 1, 5}"}',
    "a value in tags": "<function=Bash><parameter=command>ls",
    "JSON in a tag": '<function=Read>{"path": "a',
    "named arguments": '[TOOL_CALLS]Read[ARGS]{"path": "a',
    "what makes no sense after a part": '<tool_call>{"name": "Read", "arguments": {"path": "a", 5}}</tool_call>',
}


@pytest.mark.parametrize("text", HALF.values(), ids=HALF)
def test_half_a_call_is_neither_completed_nor_taken_back(text):
    told, _, detector = read(text)

    assert detector.is_broken
    assert isinstance(told[-1][1], str)
    assert detector.feed("more") == []
    assert read(text, step=1)[0] == told


def test_text_passes_at_once():
    detector = Detector(Tools({"Read": {}}))

    for text in ("Hello", " wor", "ld.\n", "a < b, ", "[x] ", "{y} `z` ", "\n- <b>"):
        assert detector.feed(text) == [(Part.TEXT, text)]
        assert not detector.is_busy


def test_only_what_may_begin_a_call_is_held():
    detector = Detector(Tools({"Read": {}}))

    assert detector.feed("so <tool") == [(Part.TEXT, "so ")]
    assert detector.is_busy
    assert detector.feed("s>") == [(Part.TEXT, "<tools>")]


def test_arguments_come_while_they_are_written():
    detector = Detector(Tools({"Write": {}}))
    feed = detector.feed

    assert feed('<tool_call>{"name": "Write"') == [(Part.CALL, "Write")]
    assert feed(', "arguments": {"content": "one ') == [(Part.INPUT, '{"content":"one ')]
    assert feed("two\\n") == [(Part.INPUT, "two\\n")]
    assert feed('"}') == []
    assert feed("}") == []
    assert feed("\n</tool_call>") == [(Part.INPUT, '"}'), (Part.STOP, "")]


def test_a_value_in_tags_comes_while_it_is_written():
    detector = Detector(Tools({"Write": {}}))

    assert detector.feed("<function=Write>") == [(Part.CALL, "Write")]
    assert detector.feed("<parameter=content>\none\ntwo\n") == [(Part.INPUT, '{"content":"one\\ntwo')]
    assert detector.feed("three</") == [(Part.INPUT, "\\nthree")]


def test_what_the_model_makes_up_is_counted():
    detector = Detector(Tools({"list": {}}))
    detector.feed('<tool_call>{"name": "list"}</tool_call><tool_response>abc')
    detector.feed("defg")

    assert detector.dropped == len("<tool_response>abcdefg")


def test_names_that_differ_in_case_alone_are_not_mended():
    tools = Tools({"read": {}, "Read": {}})

    assert (tools.named(" read "), tools.named("READ")) == ("read", None)


@pytest.mark.parametrize("step", [1_000, 100_000])
def test_no_call_is_held_without_end(step):
    text = '<tool_call>{"arguments": {"path": "' + "a" * (MAX_HELD + 200_000)

    told, notes, _ = read(text, step=step)
    assert (told, notes) == ([text], ["tool_call_rejected"])


def test_no_arguments_are_held_without_end():
    text = '<tool_call>{"name": "Read", "arguments": {5' + "a" * (MAX_HELD + 200_000)

    assert read(text, step=10_000)[2].is_broken


def test_a_key_longer_than_any_breaks_the_arguments():
    text = tag(f'{{"name": "Read", "arguments": {{"{"k" * (LOOKAHEAD + 1)}": 1}}}}')

    assert "tool_json_invalid" in read_all_ways(text)[1]


def test_every_repair_is_one_of_those_that_are_counted():
    told = {note for _, _, notes in REPAIRS.values() for note in notes} | {"tool_call_rejected"}

    assert told | {"tool_choice_ignored", "tool_json_commas"} == set(KINDS)
