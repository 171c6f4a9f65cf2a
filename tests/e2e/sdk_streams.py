"""Streams as upstreams send them, each with the message that every client must put together from it.

An upstream's stream is a list: strings go out as they stand, the rest as `data:` frames; a dict of it has `raw` for
the other ways to answer (`demo/raw.py`). A message is in short: a text is a string, thinking is `["thinking", text]`,
a call is `["call", id, name, input]` where the id `*` stands for one of ours. `usage` is input, cache read and output
tokens, and is left out where it is an estimate.
"""

from typing import Any

from tests.translator.core.upstreams import DONE, chunk, finish, tool, usage

TEXT = {"blocks": ["Hello world"], "stop": "end_turn"}
COUNTED = {**TEXT, "usage": [20, 0, 5]}
HELLO = [chunk(role="assistant", content=""), chunk(content="Hello "), chunk(content="world")]
END = [finish(), usage(20, 5), f"data: {DONE}\n\n"]
CALLED = [finish("tool_calls"), usage(20, 5), f"data: {DONE}\n\n"]
READ = {"blocks": [["call", "call_a", "Read", {"path": "a"}]], "stop": "tool_use", "usage": [20, 0, 5]}
THOUGHT = {"blocks": [["thinking", "We count."], "4"], "stop": "end_turn", "usage": [20, 0, 5]}
FOUR = [chunk(content="4"), *END]


def calls(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return chunk(tool_calls=list(entries), **more)


def read(*ids: str) -> dict[str, Any]:
    """A message that reads `a`, `b` and so on."""
    blocks = [["call", id_, "Read", {"path": path}] for id_, path in zip(ids, "abc", strict=False)]
    return {"blocks": blocks, "stop": "tool_use", "usage": [20, 0, 5]}


def with_usage(frame: dict[str, Any], output: int) -> dict[str, Any]:
    return frame | {"usage": {"prompt_tokens": 20, "completion_tokens": output}}


A, B = '{"path":"a"}', '{"path":"b"}'

FRAMING: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": ([*HELLO, *END], COUNTED),
    "content in the first chunk": ([chunk(role="assistant", content="Hello "), chunk(content="world"), *END], COUNTED),
    "CRLF, comments, no space": (
        [": OPENROUTER PROCESSING\r\n\r\n", 'data:{"choices":[{"delta":{"content":"Hello world"}}]}\r\n\r\n', *END],
        COUNTED,
    ),
    "a line separator within a string": (
        ['data: {"choices":[{"delta":{"content":"x\u2028y\u0085z"}}]}\n\n', *END],
        {**COUNTED, "blocks": ["x\u2028y\u0085z"]},
    ),
    "half an emoji a chunk": (
        [
            'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
            'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\n\n',
            *END,
        ],
        {**COUNTED, "blocks": ["😀"]},
    ),
    "lines of JSON": (
        ['{"choices":[{"delta":{"content":"Hello world"}}]}\n', '{"choices":[{"delta":{},"finish_reason":"stop"}]}\n'],
        TEXT,
    ),
    "no blank line at the end": ([*HELLO, finish(), usage(20, 5), f"data: {DONE}"], COUNTED),
    "no end mark": ([*HELLO, finish(), usage(20, 5)], COUNTED),
    "an end mark and no finish": ([*HELLO, f"data: {DONE}\n\n"], TEXT),
    "chunks that say nothing": (
        [chunk(content=None), {"choices": []}, chunk(), *HELLO, chunk(content=""), {"choices": None}, *END],
        COUNTED,
    ),
    "a message for a delta": ([{"choices": [{"message": {"content": "Hello world"}}]}, *END], COUNTED),
    "one frame of rubbish": ([*HELLO[:2], "data: {oops\n\n", HELLO[2], *END], COUNTED),
    "many small chunks": ([*[chunk(content=f"{n} ") for n in range(300)], *END], {
        **COUNTED, "blocks": ["".join(f"{n} " for n in range(300))]
    }),
    "a whole answer for a stream": (
        {"json": {"choices": [{"message": {"content": "Hello world"}, "finish_reason": "stop"}],
                  "usage": {"prompt_tokens": 20, "completion_tokens": 5}}},
        COUNTED,
    ),
}  # fmt: skip

USAGE: dict[str, tuple[Any, dict[str, Any]]] = {
    "usage with the finish": ([*HELLO, with_usage(finish(), 5), f"data: {DONE}\n\n"], COUNTED),
    "usage on each chunk": ([*[with_usage(each, n) for n, each in enumerate(HELLO)], with_usage(finish(), 5)], COUNTED),
    "cached input": (
        [*HELLO, finish(), usage(120, 5, prompt_tokens_details={"cached_tokens": 100})],
        {**TEXT, "usage": [20, 100, 5]},
    ),
    "DeepSeek's cached input": (
        [*HELLO, finish(), usage(120, 5, prompt_cache_hit_tokens=100, prompt_cache_miss_tokens=20)],
        {**TEXT, "usage": [20, 100, 5]},
    ),
    "Groq's usage": (
        [*HELLO, finish() | {"x_groq": {"usage": {"prompt_tokens": 20, "completion_tokens": 5}}}],
        COUNTED,
    ),
    "no usage": ([*HELLO, finish(), f"data: {DONE}\n\n"], TEXT),
}

REASONING: dict[str, tuple[Any, dict[str, Any]]] = {
    "reasoning_content": ([chunk(reasoning_content="We "), chunk(reasoning_content="count."), *FOUR], THOUGHT),
    "reasoning": ([chunk(reasoning="We "), chunk(reasoning="count.", content=""), *FOUR], THOUGHT),
    "both, with the same text": ([chunk(reasoning="We count.", reasoning_content="We count."), *FOUR], THOUGHT),
    "reasoning_details": (
        [chunk(reasoning_details=[{"type": "reasoning.text", "text": "We count.", "index": 0}]), *FOUR],
        THOUGHT,
    ),
    "Mistral's parts": (
        [
            chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "We count."}]}]),
            chunk(content=[{"type": "text", "text": "4"}]),
            *END,
        ],
        THOUGHT,
    ),
    "white space before a call": (
        [chunk(reasoning="Hm."), chunk(content="\n\n"), calls(tool(A, name="Read", index=0, id="call_a")), *CALLED],
        {**READ, "blocks": [["thinking", "Hm."], *READ["blocks"]]},
    ),
    "reasoning, text and two calls in turns": (
        [
            ": keep-alive\n\n",
            chunk(role="assistant", content=""),
            chunk(reasoning_content="Need two files."),
            chunk(content="Reading both."),
            calls(tool("", name="Read", index=0, id="call_a"), tool("", name="Read", index=1, id="call_b")),
            calls(tool(B, index=1)),
            calls(tool(A, index=0)),
            *CALLED,
        ],
        {**READ, "blocks": [["thinking", "Need two files."], "Reading both.", *read("call_a", "call_b")["blocks"]]},
    ),
}

CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a call in pieces": (
        [calls(tool("", name="Read", index=0, id="call_a")), calls(tool('{"pa', index=0)),
         calls(tool('th":"a"}', index=0)), *CALLED],
        READ,
    ),
    "a call in one chunk": ([calls(tool(A, name="Read", index=0, id="call_a")), *CALLED], READ),
    "calls one after the other": (
        [calls(tool(A, name="Read", index=0, id="call_a")), calls(tool(B, name="Read", index=1, id="call_b")), *CALLED],
        read("call_a", "call_b"),
    ),
    "calls without index": (
        [calls(tool(A, name="Read", id="call_a")), calls(tool(B, name="Read", id="call_b")), *CALLED],
        read("call_a", "call_b"),
    ),
    "calls of one index": (
        [calls(tool(A, name="Read", index=0, id="call_a")), calls(tool(B, name="Read", index=0, id="call_b")), *CALLED],
        read("call_a", "call_b"),
    ),
    "a call without id": ([calls(tool(A, name="Read", index=0)), *CALLED], read("*")),
    "an id that no later request may carry": (
        [calls(tool(A, name="Read", index=0, id="functions.Read:0")), *CALLED],
        read("functions_Read_0"),
    ),
    "no arguments": (
        [calls(tool("", name="Bash", index=0, id="call_a")), *CALLED],
        {**READ, "blocks": [["call", "call_a", "Bash", {}]]},
    ),
    "arguments as an object": ([calls(tool({"path": "a"}, name="Read", index=0, id="call_a")), *CALLED], READ),
    "arguments sent twice": (
        [calls(tool(A, name="Read", index=0, id="call_a")), calls(tool(A, index=0)), *CALLED],
        READ,
    ),
    "arguments after white space": (
        [calls(tool(" \n", name="Read", index=0, id="call_a")), calls(tool(A, index=0)), *CALLED],
        READ,
    ),
    "a name sent again": (
        [calls(tool("", name="Read", index=0, id="call_a")), calls(tool(A, name="Read", index=0)), *CALLED],
        READ,
    ),
    "a name in pieces": (
        [calls(tool("", name="Re", index=0, id="call_a")), calls(tool("", name="ad", index=0)),
         calls(tool(A, index=0)), *CALLED],
        READ,
    ),
    "arguments that are no JSON": (
        [calls(tool("{'path': 'a'}", name="Read", index=0, id="call_a")), *CALLED],
        {**READ, "blocks": [["call", "call_a", "Read", {"INVALID_JSON": "{'path': 'a'}"}]]},
    ),
    "text after a call": (
        [calls(tool(A, name="Read", index=0, id="call_a")), chunk(content="Done."), *CALLED],
        {**READ, "blocks": [*READ["blocks"], "Done."]},
    ),
    "a function call of old": (
        [chunk(function_call={"name": "Read", "arguments": ""}), chunk(function_call={"arguments": A}),
         finish("function_call"), usage(20, 5)],
        read("*"),
    ),
}  # fmt: skip

STOPS: dict[str, tuple[Any, dict[str, Any]]] = {
    "stop, though a tool is called": ([calls(tool(A, name="Read", index=0, id="call_a")), *END], READ),
    "tool_calls, though none is": ([*HELLO, *CALLED], COUNTED),
    "length": ([*HELLO, finish("length"), usage(20, 5)], {**COUNTED, "stop": "max_tokens"}),
    "content_filter": ([*HELLO, finish("content_filter"), usage(20, 5)], {**COUNTED, "stop": "refusal"}),
    "a stop sequence": (
        [*HELLO, finish("stop", stop_reason="###"), usage(20, 5)],
        {**COUNTED, "stop": "stop_sequence", "sequence": "###"},
    ),
    "a refusal": (
        [chunk(refusal="I can't."), *END],
        {"blocks": ["I can't."], "stop": "refusal", "usage": [20, 0, 5]},
    ),
}

FAILURES: dict[str, tuple[Any, dict[str, Any]]] = {
    "a stream that is cut": (HELLO, {"error": "api_error"}),
    "a rate limit amid the stream": (
        [*HELLO, {"error": {"message": "slow down", "code": 429}}],
        {"error": "rate_limit_error"},
    ),
    "an overload amid the stream": (
        [*HELLO, {"error": {"message": "overloaded", "type": "overloaded_error"}}],
        {"error": "overloaded_error"},
    ),
    "arguments that break after their beginning": (
        [calls(tool('{"path":', name="Read", index=0, id="call_a")), calls(tool("oops}", index=0)), *CALLED],
        {"error": "api_error"},
    ),
}

STREAMS: dict[str, tuple[Any, dict[str, Any]]] = FRAMING | USAGE | REASONING | CALLS | STOPS | FAILURES


def raw_of(stream: Any) -> dict[str, Any]:
    """Return what makes the scripted upstream send this."""
    return stream if isinstance(stream, dict) else {"sse": stream}


def short(message: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return what a client saw, as far as `expected` speaks of it."""
    if "error" in message:
        return {"error": message["error"]}
    ours = [block for block in expected.get("blocks", ()) if block[:2] == ["call", "*"]]
    seen = {
        "blocks": [
            ["call", "*" if ours and block[0] == "call" else block[1], *block[2:]] if block[0] == "call" else block
            for block in message["blocks"]
        ],
        "stop": message["stop"],
        "sequence": message["sequence"],
        "usage": message["usage"],
    }
    return {key: seen[key] for key in expected if key in seen}
