"""Whatever a model writes: nothing is lost, nothing raises, and what the client gets keeps the rules."""

# ruff: noqa: RUF001  # the bars in DeepSeek's tokens are of full width

from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.emulation.test_answers import emulated, said
from tests.translator.core.emulation.texts import read
from tests.translator.core.test_stream_rules import check_inputs, check_keeps_the_rules
from tests.translator.core.upstreams import DONE, chunk, decoder, encode, finish, sse
from translator.core.emulation.calls import Part, Tools
from translator.core.emulation.detector import Detector

PIECES = st.sampled_from(
    [
        "<tool_call>", "</tool_call>", '{"name": "Read", ', '"arguments": ', '{"path": "a"}', "}", "{", "[", "]", ",", '"',
        "\\", "\n", "```json\n", "```", "`", "<function=Bash>", "<parameter=command>", "</parameter>", "</function>",
        '<invoke name="Read">', '<parameter name="path">', "</invoke>", "[TOOL_CALLS]", "Read", "[ARGS]", "words ", "x",
        '"name": ', '"Rm"', '"Read"', "5", "null", "True", "'", ":", "<", "</", "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "\\u",
        "\\ud83d", "\\ude80", "ü", '{"tool_calls": [', '{"name": "Bash", "arguments": {"command": "ls"}}', "<tool_response>",
        '"limit": "5"', " ", "\t", '"arguments": "{\\"path\\": \\"a\\"}"', '"command": "echo "hi""', '"input": {', "id",
        '"function": {', "0.5e", "//",
    ]
)  # fmt: skip
TEXTS = st.builds(
    str.__add__,
    st.sampled_from(
        ["", "<tool_call>", '<tool_call>{"name": "Read", "arguments": ', "<function=Bash><parameter=command>"]
    ),
    st.lists(PIECES, max_size=25).map("".join),
)
PROSE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<{[`"), max_size=60)


@given(text=TEXTS, step=st.integers(1, 9), is_truncated=st.booleans())
def test_the_cut_does_not_matter(text, step, is_truncated):
    whole = read(text, is_truncated=is_truncated)

    assert read(text, step=step, is_truncated=is_truncated)[:2] == whole[:2]


@given(text=TEXTS)
def test_text_without_calls_comes_out_as_it_went_in(text):
    told, _, detector = read(text)

    if not detector.calls.count:
        assert "".join(told) == text


@given(text=TEXTS, is_truncated=st.booleans())
def test_inputs_are_objects_unless_the_answer_was_cut_or_broke(text, is_truncated):
    told, _, detector = read(text, is_truncated=is_truncated)
    calls = [call for call in told if isinstance(call, tuple)]
    is_whole = not (detector.calls.is_cut or detector.is_broken)

    for name, given_input in calls if is_whole else calls[:-1]:
        assert name in ("Read", "Bash", "list-files")
        assert isinstance(given_input, dict)


@given(texts=st.lists(PROSE, max_size=6))
def test_prose_is_never_held(texts):
    detector = Detector(Tools({"Read": {}}))

    for text in texts:
        assert detector.feed(text) == ([(Part.TEXT, text)] if text else [])


@given(text=TEXTS, reason=st.sampled_from(["stop", "length", "tool_calls"]), tags=st.booleans(), parallel=st.booleans())
def test_the_stream_keeps_the_rules(text, reason, tags, parallel):
    subject = decoder(emulated(parallel_tools=parallel), think_tags=tags)
    data = encode(subject.feed(said(text, reason=reason)) + subject.finish())

    check_keeps_the_rules(data)
    check_inputs(data)


@given(texts=st.lists(TEXTS, max_size=4), thoughts=st.lists(st.sampled_from(["", "Hm. ", "<tool_call>"]), max_size=4))
def test_thinking_in_between_does_no_harm(texts, thoughts):
    chunks = [
        chunk(content=text, reasoning=thought) for text, thought in zip(texts, [*thoughts, *[""] * 4], strict=False)
    ]
    subject = decoder(emulated())
    data = encode(subject.feed(sse(*chunks, finish(), DONE)) + subject.finish())

    check_keeps_the_rules(data)
    check_inputs(data)
