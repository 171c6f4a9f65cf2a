"""Tool calls in streams of chat/completions upstreams, each quirk under its name."""

import pytest

from tests.translator.core.upstreams import DONE, answer, chunk, decode, decoder, finish, sse, summary, tool, usage
from translator.core.events import BlockStart, BlockStop, InputJsonDelta, StreamFailed, TextDelta, ToolUseBlock
from translator.core.openai_chat.tool_calls import MALFORMED

CALLS = finish("tool_calls")
A = ("call_a", "Read", {"path": "a"})
B = ("call_b", "Bash", {"command": "b"})
ARGS_A, ARGS_B = '{"path":"a"}', '{"command":"b"}'


def calls(*entries):
    return chunk(tool_calls=list(entries))


def start_a(arguments=None, **more):
    return calls(tool(arguments, **{"name": "Read", "index": 0, "id": "call_a"} | more))


def start_b(arguments=None, **more):
    return calls(tool(arguments, **{"name": "Bash", "index": 1, "id": "call_b"} | more))


def more_a(arguments, **more):
    return calls(tool(arguments, **{"index": 0} | more))


def more_b(arguments, **more):
    return calls(tool(arguments, **{"index": 1} | more))


ONE = {"blocks": [A], "stop": "tool_use"}
BOTH = {"blocks": [A, B], "stop": "tool_use"}


def one(input_, id_="call_a", name="Read", stop="tool_use"):
    return {"blocks": [(id_, name, input_)], "stop": stop}


STREAMS = {
    "a call in fragments": (sse(start_a(""), more_a('{"pa'), more_a('th":'), more_a('"a"}'), CALLS, DONE), ONE),
    "a call in one chunk": (sse(start_a(ARGS_A), CALLS, DONE), ONE),
    "the last fragment beside the finish": (
        sse(start_a('{"path":'), {"choices": [{"delta": {"tool_calls": [tool('"a"}', index=0)]}, "finish_reason": "tool_calls"}]}),
        ONE,
    ),
    "an empty fragment at the end": (sse(start_a(ARGS_A), more_a(""), CALLS), ONE),
    "one after another": (sse(start_a(""), more_a(ARGS_A), start_b(""), more_b('{"command":'), more_b('"b"}'), CALLS), BOTH),
    "two in one chunk": (sse(calls(tool(ARGS_A, name="Read", index=0, id="call_a"), tool(ARGS_B, name="Bash", index=1, id="call_b")), CALLS), BOTH),
    "interleaved": (sse(start_a(""), start_b(""), more_b('{"command":'), more_a('{"path":'), more_b('"b"}'), more_a('"a"}'), CALLS), BOTH),
    "the second is complete first": (sse(start_a(""), start_b(ARGS_B), more_a(ARGS_A), CALLS), BOTH),
    "index 0 for each": (sse(start_a(ARGS_A), start_b(ARGS_B, index=0), CALLS), BOTH),
    "index 0 for each, in fragments": (sse(start_a(""), more_a(ARGS_A), start_b("", index=0), more_b(ARGS_B, index=0), CALLS), BOTH),
    "index 0 for each, interleaved by id": (
        sse(start_a('{"path":'), start_b('{"command":', index=0), start_a('"a"}'), more_b('"b"}', index=0, id="call_b"), CALLS),
        BOTH,
    ),
    "index 0 for each, without ids": (
        sse(start_a(ARGS_A, id=None), start_a('{"path":"b"}', id=None), CALLS),
        {"blocks": [("toolu_1", *A[1:]), ("toolu_2", "Read", {"path": "b"})], "stop": "tool_use"},
    ),
    "index 0 and no id, sent again whole": (sse(start_a('{"path":', id=None), more_a('"a"}'), start_a(ARGS_A, id=None), CALLS), one({"path": "a"}, "toolu_1")),
    "index 0 and no id, an empty object first": (sse(start_a("{}", id=None), start_a(ARGS_A, id=None), CALLS), one({"path": "a"}, "toolu_1")),
    "index as text": (sse(start_a("", index="0"), start_b(ARGS_B, index="1"), more_a(ARGS_A, index="0"), CALLS), BOTH),
    "index with a fraction": (sse(start_a("", index=0.0), start_b(ARGS_B, index=1.0), more_a(ARGS_A, index=0.0), CALLS), BOTH),
    "index from 1": (sse(start_a(ARGS_A, index=1), start_b(ARGS_B, index=2), CALLS), BOTH),
    "index counts the fragments": (sse(start_a('{"path":'), more_a('"a"}', index=1, id="call_a"), CALLS), ONE),
    "no index": (sse(start_a(ARGS_A, index=None), start_b(ARGS_B, index=None), CALLS), BOTH),
    "no index, in fragments": (sse(start_a('{"path"', index=None), more_a(':"a"}', index=None), start_b(ARGS_B, index=None), CALLS), BOTH),
    "no index, by id": (sse(start_a('{"path"', index=None), start_b("", index=None), more_a(':"a"}', index=None, id="call_a"), more_b(ARGS_B, index=None, id="call_b"), CALLS), BOTH),
    "no index, an id that changes": (sse(start_a('{"path"', index=None), more_a(':"a"}', index=None, id="x"), CALLS), ONE),
    "an id on each fragment": (sse(start_a("", id="call_a"), more_a('{"path":', id="call_a"), more_a('"a"}', id="call_a"), CALLS), ONE),
    "an id that changes": (sse(start_a(""), more_a('{"path":', id="x1"), more_a('"a"}', id="x2"), CALLS), ONE),
    "an id that changes, with the name": (sse(start_a('{"path"'), start_a(":", id="x1"), start_a('"a"}', id="x2"), CALLS), ONE),
    "an id that comes late": (sse(start_a("", id=None, name="Re"), start_a("", name="ad"), more_a(ARGS_A), CALLS), ONE),
    "neither index nor id": (
        sse(start_a(ARGS_A, index=None, id=None), start_b(ARGS_B, index=None, id=""), CALLS),
        {"blocks": [("toolu_1", *A[1:]), ("toolu_2", *B[1:])], "stop": "tool_use"},
    ),
    "neither index nor id, in fragments": (
        sse(start_a('{"path"', index=None, id=None), more_a(':"a"}', index=None), start_b('{"command"', index=None, id=None), more_b(':"b"}', index=None), CALLS),
        {"blocks": [("toolu_1", *A[1:]), ("toolu_2", *B[1:])], "stop": "tool_use"},
    ),
    "neither, the name sent again with the arguments": (
        sse(start_a("", index=None, id=None), start_a(ARGS_A, index=None, id=None), CALLS), one({"path": "a"}, "toolu_1"),
    ),
    "neither, the name sent again with each fragment": (
        sse(start_a('{"path"', index=None, id=None), start_a(':"a"}', index=None, id=None), CALLS), one({"path": "a"}, "toolu_1"),
    ),
    "neither, a whole call while one is incomplete": (
        sse(start_a("", index=None, id=None), start_b(ARGS_B, index=None, id=None), CALLS),
        {"blocks": [("toolu_1", "Read", {}), ("toolu_2", *B[1:])], "stop": "tool_use"},
    ),
    "a fragment before any call": (sse(more_a(ARGS_A, index=None), start_a("", index=None), CALLS), {"blocks": [A], "stop": "tool_use"}),
    "an id that is null": (sse(start_a(ARGS_A), start_b(ARGS_B, id=None), CALLS), {"blocks": [A, ("toolu_1", *B[1:])], "stop": "tool_use"}),
    "an id twice": (sse(start_a(ARGS_A), start_b(ARGS_B, id="call_a"), CALLS), {"blocks": [A, ("call_a_1", *B[1:])], "stop": "tool_use"}),
    "an id with other characters": (sse(start_a(ARGS_A, id="functions.Read:0"), CALLS), one({"path": "a"}, "functions_Read_0")),
    "an id of the wrong kind": (sse(start_a(ARGS_A, id=7, index="x"), CALLS), one({"path": "a"}, "toolu_1")),
    "a name with what gpt-oss leaves around it": (sse(start_a(ARGS_A, name="functions.Read<|channel|>json"), CALLS), ONE),
    "a name in fragments": (sse(calls(tool("", name="Re", index=0, id="call_a")), calls(tool("", name="ad", index=0)), more_a(ARGS_A), CALLS), ONE),
    "a name sent again": (sse(start_a(""), start_a('{"path":'), start_a('"a"}', id=None), CALLS), ONE),
    "a name that grows": (sse(calls(tool(name="Re", index=0, id="call_a")), start_a(), more_a(ARGS_A), CALLS), ONE),
    "a name nobody offered, sent again": (
        sse(calls(tool("", name="Rm", index=0, id="call_a")), calls(tool("", name="Rm", index=0)), more_a("{}"), CALLS), one({}, name="Rm"),
    ),
    "a name with spaces": (sse(calls(tool(ARGS_A, name=" Read\n", index=0, id="call_a")), CALLS), ONE),
    "a name after the arguments": (sse(more_a(ARGS_A, id="call_a"), calls(tool(name="Read", index=0)), CALLS), {"blocks": [A], "stop": "tool_use"}),
    "a name nobody offered": (sse(calls(tool("{}", name="Rm", index=0, id="call_a")), CALLS), one({}, name="Rm")),
    "no name": (sse(more_a(ARGS_A, id="call_a"), CALLS), {"blocks": [], "stop": "end_turn"}),
    "no arguments": (sse(start_a(), CALLS), one({})),
    "empty arguments": (sse(start_a(""), more_a("  "), CALLS), one({})),
    "arguments null": (sse(start_a("null"), CALLS), one({})),
    "an empty object": (sse(start_a("{}"), start_b(ARGS_B), CALLS), {"blocks": [("call_a", "Read", {}), B], "stop": "tool_use"}),
    "an empty object first": (sse(start_a("{}"), more_a('{"path":'), more_a('"a"}'), CALLS), ONE),
    "an empty object first, in one fragment": (sse(start_a("{}" + ARGS_A), CALLS), ONE),
    "an empty object first, then another call": (sse(start_a("{}" + ARGS_A), start_b(ARGS_B), CALLS), BOTH),
    "arguments twice": (sse(start_a(""), more_a('{"path":'), more_a('"a"}'), more_a(ARGS_A), CALLS), ONE),
    "arguments twice in one": (sse(start_a(ARGS_A * 2), CALLS), ONE),
    "arguments that grow": (sse(start_a("{"), more_a('{"pa'), more_a('{"path":'), more_a('{"path":"'), more_a(ARGS_A), more_a(ARGS_A), CALLS), ONE),
    "arguments that grow, from the first value": (sse(start_a('{"path":"'), more_a('{"path":"a'), more_a(ARGS_A), start_b(ARGS_B), CALLS), BOTH),
    "an object in an object of the same key": (
        sse(start_a('{"a":'), more_a('{"a":'), more_a('{"a":1}}}'), CALLS), one({"a": {"a": {"a": 1}}}),
    ),
    "a list of objects": (sse(start_a('{"a":['), more_a('{"a":[]}'), more_a("]}"), CALLS), one({"a": [{"a": []}]})),
    "arguments and garbage": (sse(start_a(ARGS_A + "</tool_call>"), CALLS), ONE),
    "arguments as an object": (sse(start_a({"path": "a"}), CALLS), ONE),
    "arguments as a list": (sse(start_a([1]), CALLS), one({"INVALID_JSON": "[1]"})),
    "arguments encoded twice": (sse(start_a('"{\\"path\\"'), more_a(':\\"a\\"}"'), CALLS), ONE),
    "white space first": (sse(start_a("\n"), more_a("  "), more_a(" " + ARGS_A), CALLS), ONE),
    "a raw line break": (sse(start_a('{"path":"a\nb"}'), CALLS), one({"path": "a\nb"})),
    "python": (sse(start_a("{'path': 'a'}"), CALLS), one({"INVALID_JSON": "{'path': 'a'}"})),
    "python, in fragments": (sse(start_a("{"), more_a("'path'"), more_a(": 'a'}"), CALLS), one({"INVALID_JSON": "{'path': 'a'}"})),
    "python, before another call": (sse(start_a("{'a'}"), start_b(ARGS_B), CALLS), {"blocks": [("call_a", "Read", {"INVALID_JSON": "{'a'}"}), B], "stop": "tool_use"}),
    "arguments nested too deep": (
        sse('{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_a","function":{"name":"Read","arguments":' + "[" * 400 + "]" * 400 + "}}]}}]}", CALLS),
        one({"INVALID_JSON": "nested too deep"}),
    ),
    "text, then a call": (sse(chunk(content="Look."), start_a(ARGS_A), CALLS), {"blocks": ["Look.", A], "stop": "tool_use"}),
    "text and a call in one chunk": (sse(chunk(content="Look.", tool_calls=[tool(ARGS_A, name="Read", index=0, id="call_a")]), CALLS), {"blocks": ["Look.", A], "stop": "tool_use"}),
    "text after a call": (sse(start_a(ARGS_A), chunk(content="Done."), CALLS), {"blocks": [A, "Done."], "stop": "tool_use"}),
    "text after a call with an empty object": (sse(start_a("{}"), chunk(content="Done."), CALLS), {"blocks": [("call_a", "Read", {}), "Done."], "stop": "tool_use"}),
    "text within a call": (sse(start_a('{"path"'), chunk(content="Do"), chunk(content="ne."), more_a(':"a"}'), CALLS), {"blocks": [A, "Done."], "stop": "tool_use"}),
    "text and thinking within a call": (
        sse(start_a('{"path"'), chunk(content="Do"), chunk(reasoning="hm"), start_b(ARGS_B), more_a(':"a"}'), CALLS),
        {"blocks": [A, B, "Do", ("thinking", "hm")], "stop": "tool_use"},
    ),
    "text after a call without arguments": (sse(start_a(), chunk(content="Done."), CALLS), {"blocks": [("call_a", "Read", {}), "Done."], "stop": "tool_use"}),
    "line breaks before a call": (sse(chunk(content="\n\n"), start_a(ARGS_A), CALLS), ONE),
    "a phantom call": (sse(chunk(content="Done."), chunk(tool_calls=[]), CALLS), {"blocks": ["Done."], "stop": "end_turn"}),
    "entries of the wrong kind": (sse(chunk(tool_calls=[7, None, {}, {"function": 1}]), start_a(ARGS_A), chunk(tool_calls={"a": 1}), CALLS), ONE),
    "a custom call": (sse(chunk(tool_calls=[{"index": 0, "id": "call_a", "type": "custom", "custom": {"name": "Read", "input": "x"}}]), CALLS), one({"input": "x"})),
    "a legacy call": (
        sse(chunk(function_call={"name": "Read", "arguments": ""}), chunk(function_call={"arguments": ARGS_A}), finish("function_call")),
        one({"path": "a"}, "toolu_1"),
    ),
    "a flat call": (sse(calls({"index": 0, "id": "call_a", "name": "Read", "arguments": ARGS_A}), CALLS), ONE),
    "a call that is not in a list": (sse(chunk(tool_calls=tool(ARGS_A, name="Read", index=0, id="call_a")), CALLS), ONE),
    "finish stop": (sse(start_a(ARGS_A), finish("stop")), ONE),
    "finish unknown": (sse(start_a(ARGS_A), finish("whatever")), ONE),
    "no finish, but done": (sse(start_a(ARGS_A), DONE), ONE),
    "out of tokens after a call": (sse(start_a(ARGS_A), finish("length")), ONE | {"stop": "max_tokens"}),
    "out of tokens within a call": (sse(start_a('{"path":"a","b":"x'), finish("length")), one({"path": "a"}, stop="max_tokens")),
    "out of tokens within the first key": (sse(start_a('{"pa'), finish("length")), one({}, stop="max_tokens")),
    "out of tokens before the arguments": (sse(start_a(), finish("length")), one({}, stop="max_tokens")),
}  # fmt: skip

FAILURES = {
    "python after the first key, beside a finish that is an error": sse(
        start_a('{"path":'), {"choices": [{"delta": {"tool_calls": [tool("'a'}", index=0)]}, "finish_reason": "error"}]}
    ),
    "python after the first key": sse(start_a('{"path":'), more_a("'a'}"), CALLS),
    "garbage after the first key": sse(start_a('{"path": oops'), more_a("x"), CALLS),
    "cut though finished": sse(start_a('{"path":"a'), CALLS),
    "cut though done": sse(start_a('{"path":"a'), DONE),
}


@pytest.mark.parametrize("quirk", STREAMS)
@pytest.mark.parametrize("step", [None, 1])
def test_calls(quirk, step):
    stream, expected = STREAMS[quirk]

    assert summary(decode(stream, step=step)) == expected


@pytest.mark.parametrize("quirk", FAILURES)
def test_arguments_that_broke_after_a_part_was_sent_end_the_answer(quirk):
    events = decode(FAILURES[quirk])
    sent = [event for event in events if isinstance(event, InputJsonDelta)]

    assert sent or quirk == "garbage after the first key"
    assert [type(event) for event in events].count(StreamFailed) == (quirk != "garbage after the first key")
    assert summary(events) in ({"error": ("api_error", MALFORMED)}, {"error": ("api_error", "upstream failed to finish the answer")}, {"blocks": [("call_a", "Read", {"INVALID_JSON": '{"path": oopsx'})], "stop": "tool_use"})  # fmt: skip


def test_the_end_of_the_stream_within_a_call_is_a_failure():
    assert "error" in summary(decode(sse(start_a('{"path":"a'))))


def test_a_call_is_told_as_soon_as_its_name_is_known():
    subject = decoder()
    started = subject.feed(sse(start_a()))

    assert started[-1] == BlockStart(block=ToolUseBlock(id="call_a", name="Read"))
    assert subject.feed(sse(more_a('{"path":'))) == [InputJsonDelta(partial_json='{"path":')]
    assert subject.feed(sse(more_a('"a"}'))) == [InputJsonDelta(partial_json='"a"}'), BlockStop()]


def test_a_name_that_may_go_on_waits_for_the_arguments():
    subject = decoder(answer(tools=frozenset({"Read", "ReadAll"})))

    assert subject.feed(sse(start_a()))[1:] == []
    assert subject.feed(sse(calls(tool(name="All", index=0))))[0].block.name == "ReadAll"


def test_one_tool_offered_names_a_call_without_a_name():
    stream = sse(more_a(ARGS_A, id="call_a"), CALLS)

    assert summary(decode(stream, lambda: decoder(answer(tools=frozenset({"Read"}))))) == ONE
    assert summary(decode(stream, lambda: decoder(answer(forced_tool="Read")))) == ONE


def test_a_shortened_name_is_restored():
    make = lambda: decoder(answer(tool_names={"Read": "mcp__long__Read"}))  # noqa: E731

    assert summary(decode(sse(start_a(ARGS_A), CALLS), make)) == one({"path": "a"}, name="mcp__long__Read")


def test_an_id_of_the_history_is_not_used_again():
    make = lambda: decoder(answer(history_tool_ids=frozenset({"call_a"})))  # noqa: E731

    assert summary(decode(sse(start_a(ARGS_A), CALLS), make)) == one({"path": "a"}, "call_a_1")


def test_only_the_first_call_passes_where_one_is_allowed():
    subject = decoder(answer(parallel_tools=False))
    events = subject.feed(sse(start_a(ARGS_A), start_b(""), more_b('{"command":'), chunk(content="Done."), more_b('"b"}'), CALLS, DONE))  # fmt: skip

    assert summary(events) == {"blocks": [A, "Done."], "stop": "tool_use"}
    assert subject.notes == ("parallel_tool_dropped",)


def test_a_call_without_a_name_is_noted():
    subject = decoder()
    subject.feed(sse(more_a(ARGS_A), CALLS, DONE))

    assert subject.notes == ("tool_without_name_dropped",)


def test_calls_without_end_are_dropped():
    entries = [tool("{}", name="Read", index=i) for i in range(1000)]
    subject = decoder()
    events = subject.feed(sse(calls(*entries), calls(*entries), CALLS, DONE))

    assert len(summary(events)["blocks"]) == 512
    assert subject.notes == ("tool_calls_dropped",)


def test_counts_that_reach_the_limit_mean_that_a_call_was_cut():
    make = lambda: decoder(answer(max_tokens=5))  # noqa: E731
    stream = sse(start_a('{"path":"a","b":'), CALLS, usage(completion=5), DONE)

    assert summary(decode(stream, make)) == one({"path": "a"}, stop="max_tokens")
    assert summary(decode(sse(start_a(ARGS_A), CALLS, usage(completion=5)), make)) == ONE


def test_text_that_waits_for_a_call_is_written_after_it():
    subject = decoder()
    subject.feed(sse(start_a('{"path"')))
    assert subject.feed(sse(chunk(content="x"))) == []
    events = subject.feed(sse(more_a(':"a"}')))

    assert events[-1] == TextDelta(text="x")
