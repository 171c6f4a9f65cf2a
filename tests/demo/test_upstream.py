"""The scripted upstream over real sockets: what it sends must be what the script says, to the byte."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.upstream import ScriptedUpstream

#: How long a machine that has much to do may take for whatever comes at all, and how long nothing comes of what is silent.
PATIENCE_S, SILENCE_S = 30, 0.3
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def ask(model: str = "demo", text: str = "Hello", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


def post(upstream: ScriptedUpstream, body: dict[str, Any], key: str = "sk-one") -> httpx.Response:
    return upstream.client.post("chat/completions", json=body, headers={"authorization": f"Bearer {key}"})


def stream(upstream: ScriptedUpstream, model: str = "demo", text: str = "Hello", **more: Any) -> list[dict[str, Any]]:
    """Give the chunks of a streamed answer, without the final [DONE]."""
    more.setdefault("stream_options", {"include_usage": True})
    response = post(upstream, ask(model, text, stream=True, **more))
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in response.text.split("\n") if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


@contextmanager
def raw_call(upstream: ScriptedUpstream, body: dict[str, Any]) -> Iterator[socket.socket]:
    """Send a call by hand; the reading is the test's."""
    where = urlsplit(upstream.base_url)
    with closing(socket.create_connection((where.hostname, where.port), timeout=PATIENCE_S)) as connection:
        data = json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data)
        yield connection


def read_all(connection: socket.socket, *, silent_after: Callable[[bytes], bool] | None = None) -> tuple[bytes, str]:
    """Read to the end, and say how it ended: closed, reset, or silent.

    Args:
        silent_after: Whether all has come after which nothing more is to come.
    """
    data = b""
    while True:
        if silent_after is not None and silent_after(data):
            connection.settimeout(SILENCE_S)
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return data, "reset"
        except TimeoutError:
            return data, "silent"
        if not part:
            return data, "closed"
        data += part


def words_in(data: bytes) -> int:
    """Count the frames with text, but for the empty one of the beginning."""
    return data.count(b'"content":"') - 1


def test_a_plain_question_is_echoed_with_the_usage_of_its_length(upstream: ScriptedUpstream) -> None:
    answer = post(upstream, ask(text="Is the sea deep?")).json()

    text = answer["choices"][0]["message"]["content"]
    assert "Is the sea deep?" in text
    assert answer["usage"]["completion_tokens"] == -(-len(text) // 4)
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_stream_comes_word_by_word_and_says_the_same(upstream: ScriptedUpstream) -> None:
    whole = post(upstream, ask()).json()

    chunks = stream(upstream)

    assert text_of(chunks) == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert len(chunks) > 10


def test_usage_is_streamed_only_to_those_who_ask(upstream: ScriptedUpstream) -> None:
    chunks = stream(upstream, stream_options=None)

    assert all("usage" not in chunk for chunk in chunks)


def test_an_offered_tool_that_the_question_names_is_called(upstream: ScriptedUpstream) -> None:
    answer = post(upstream, ask(text="Use get_weather for Paris", tools=[WEATHER])).json()

    call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "get_weather"
    assert json.loads(call["arguments"]) == {"city": "Paris"}
    assert answer["choices"][0]["finish_reason"] == "tool_calls"


def test_a_tool_is_not_called_by_the_way(upstream: ScriptedUpstream) -> None:
    write = {"type": "function", "function": {"name": "Write", "parameters": {"type": "object"}}}

    answer = post(upstream, ask(text="Write a poem about how to write", tools=[write])).json()

    assert "tool_calls" not in answer["choices"][0]["message"]


def test_a_tool_that_may_not_be_called_is_not_called(upstream: ScriptedUpstream) -> None:
    answer = post(upstream, ask(text="Use get_weather for Paris", tools=[WEATHER], tool_choice="none")).json()

    assert "tool_calls" not in answer["choices"][0]["message"]


def test_the_result_of_a_tool_is_told(upstream: ScriptedUpstream) -> None:
    body = ask(text="Use get_weather for Paris", tools=[WEATHER])
    body["messages"].append({"role": "tool", "tool_call_id": "call_1", "content": "rain"})

    assert "rain" in post(upstream, body).json()["choices"][0]["message"]["content"]


def test_reasoning_comes_first_when_it_is_asked_for(upstream: ScriptedUpstream) -> None:
    chunks = stream(upstream, reasoning_effort="low")

    kinds = [next(iter(chunk["choices"][0]["delta"]), "") for chunk in chunks if chunk["choices"]]
    assert kinds.index("reasoning_content") < kinds.index("content", 1)
    assert chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0


def test_a_long_prompt_is_cached_the_second_time_and_not_for_another_key(upstream: ScriptedUpstream) -> None:
    body = ask(text="word " * 1000)

    cached = [
        post(upstream, body, key).json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        for key in ("sk-one", "sk-one", "sk-two")
    ]

    assert cached[0] == cached[2] == 0
    assert cached[1] >= 1000


def test_an_answer_longer_than_max_tokens_is_cut_with_length(upstream: ScriptedUpstream) -> None:
    answer = post(upstream, ask(max_tokens=5)).json()

    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] <= 5


def test_markers_call_tools_in_parallel_and_then_give_the_final_text(upstream: ScriptedUpstream) -> None:
    call = '<<TOOL {"name": "get_weather", "input": {"city": "%s"}}>>'
    body = ask(text=f"{call % 'Rome'} {call % 'Oslo'} <<FINAL both are fine>>", tools=[WEATHER])

    first = post(upstream, body).json()["choices"][0]["message"]
    body["messages"] += [
        first,
        *({"role": "tool", "tool_call_id": c["id"], "content": "x"} for c in first["tool_calls"]),
    ]
    second = post(upstream, body).json()["choices"][0]["message"]

    cities = [json.loads(c["function"]["arguments"])["city"] for c in first["tool_calls"]]
    assert cities == ["Rome", "Oslo"]
    assert second["content"] == "both are fine"


def test_the_benchmark_names_set_frames_and_gaps(upstream: ScriptedUpstream) -> None:
    began = time.monotonic()

    chunks = stream(upstream, "mock-n5-d20")

    assert text_of(chunks) == "word " * 5
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize(
    ("script", "ending", "words"),
    [
        ("cut,frame=7", "closed", 7),
        ("cut,frame=0", "closed", 0),
        ("reset,frame=7", "reset", 7),
        ("silent,frame=2", "silent", 2),
    ],
)
def test_a_stream_breaks_after_exactly_so_many_frames(
    upstream: ScriptedUpstream, script: str, ending: str, words: int
) -> None:
    with raw_call(upstream, ask(f"script/{script},frames=20", stream=True)) as connection:
        is_silent = ending == "silent"
        data, ended = read_all(connection, silent_after=(lambda data: words_in(data) == words) if is_silent else None)

    assert ended == ending
    assert words_in(data) == words
    assert b"[DONE]" not in data
    attempt = upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)["attempts"][0]
    assert (attempt["sent_tokens"], attempt["finished"], attempt["usage_sent"]) == (words, False, False)


def test_eof_ends_http_well_and_the_answer_not(upstream: ScriptedUpstream) -> None:
    response = post(upstream, ask("script/eof,frame=2", stream=True))

    assert response.text.count('"content":"') - 1 == 2
    assert "[DONE]" not in response.text
    assert 'finish_reason":"stop' not in response.text


@pytest.mark.parametrize("place", [0, 1, 300, 731])
def test_a_stream_breaks_at_exactly_that_byte_of_the_body(upstream: ScriptedUpstream, place: int) -> None:
    with raw_call(upstream, ask(f"script/cut,byte={place}", stream=True)) as connection:
        data, ended = read_all(connection)

    head, _, chunks = data.partition(b"\r\n\r\n")
    body = b""
    while chunks:
        size, _, rest = chunks.partition(b"\r\n")
        body, chunks = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    assert head.startswith(b"HTTP/1.1 200")
    assert (len(body), ended) == (place, "closed")


@pytest.mark.parametrize(("script", "ending"), [("cut", "closed"), ("reset", "reset"), ("silent", "silent")])
def test_a_fault_without_a_place_comes_before_any_byte(upstream: ScriptedUpstream, script: str, ending: str) -> None:
    with raw_call(upstream, ask(f"script/{script}", stream=True)) as connection:
        silent_after = (lambda _: True) if ending == "silent" else None

        assert read_all(connection, silent_after=silent_after) == (b"", ending)


def test_reset_at_close_sends_everything_first(upstream: ScriptedUpstream) -> None:
    with raw_call(upstream, ask("script/reset_at_close", stream=True)) as connection:
        data, ended = read_all(connection)

    assert ended == "reset"
    assert b"data: [DONE]" in data
    assert not data.endswith(b"0\r\n\r\n")


def test_a_status_comes_with_its_words_and_retry_after(upstream: ScriptedUpstream) -> None:
    response = post(upstream, ask("script/status=429,retry_after=7,message=slow+down", stream=True))

    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert response.json()["error"]["message"] == "slow down"
    assert upstream.attempts()[0]["ended"] == "refused"


@pytest.mark.parametrize(
    ("script", "kind", "begins"),
    [
        ("error200=429", "application/json", b'{"error":'),
        ("html", "text/html", b"<!doctype html>"),
        ("empty", "text/event-stream", b""),
        ("json", "application/json", b'{"id":'),
    ],
)
def test_status_200_can_carry_anything(upstream: ScriptedUpstream, script: str, kind: str, begins: bytes) -> None:
    response = post(upstream, ask(f"script/{script}", stream=True))

    assert response.status_code == 200
    assert response.headers["content-type"].startswith(kind)
    assert response.content[: len(begins)] == begins


def test_a_redirect_names_its_goal(upstream: ScriptedUpstream) -> None:
    response = post(upstream, ask("script/redirect=http://127.0.0.1:1/x"))

    assert (response.status_code, response.headers["location"]) == (302, "http://127.0.0.1:1/x")


def test_an_error_frame_comes_between_frames(upstream: ScriptedUpstream) -> None:
    lines = post(upstream, ask("script/errorframe=429,frame=2", stream=True)).text.split("\n\n")

    assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == 429
    assert sum('"content":"' in line for line in lines) - 1 == 2


def test_one_frame_is_no_json_and_the_others_are(upstream: ScriptedUpstream) -> None:
    response = post(upstream, ask("script/malformed,frame=2", stream=True))

    broken = []
    for line in response.text.split("\n\n")[:-2]:
        try:
            json.loads(line.removeprefix("data: "))
        except ValueError:
            broken.append(line)
    assert len(broken) == 1


def test_one_frame_is_no_utf8(upstream: ScriptedUpstream) -> None:
    content = post(upstream, ask("script/badutf8", stream=True)).content

    with pytest.raises(UnicodeDecodeError):
        content.decode()
    assert content.endswith(b"data: [DONE]\n\n")


def test_one_frame_is_as_big_as_asked(upstream: ScriptedUpstream) -> None:
    frames = post(upstream, ask("script/bigframe=3000000", stream=True)).content.split(b"\n\n")

    assert 3_000_000 < max(map(len, frames)) < 3_001_000


def test_a_gzip_bomb_is_small_on_the_wire(upstream: ScriptedUpstream) -> None:
    with raw_call(upstream, ask("script/gzipbomb=20", stream=True)) as connection:
        data, _ = read_all(connection, silent_after=lambda data: data.endswith(b"0\r\n\r\n"))

    body = data.partition(b"\r\n\r\n")[2]
    assert 1000 < len(body) < 200_000
    assert body.endswith(b"0\r\n\r\n")


def test_usage_can_lie_or_be_missing_and_the_truth_knows(upstream: ScriptedUpstream) -> None:
    lie = stream(upstream, "script/usage=-5,frames=8")
    none = stream(upstream, "script/nousage,frames=8")

    assert lie[-1]["usage"]["completion_tokens"] == -5
    assert all("usage" not in chunk for chunk in none)
    assert [attempt["output_tokens"] for attempt in upstream.attempts()] == [8, 8]
    assert [attempt["usage_sent"] for attempt in upstream.attempts()] == [True, False]


def test_terminators_can_be_left_out(upstream: ScriptedUpstream) -> None:
    text = post(upstream, ask("script/nodone,nofinish", stream=True)).text

    assert "[DONE]" not in text
    assert '"finish_reason":"' not in text


def test_lines_can_end_in_crlf_and_bytes_come_one_by_one(upstream: ScriptedUpstream) -> None:
    assert b"\n\n" not in post(upstream, ask("script/crlf", stream=True)).content

    with raw_call(upstream, ask("script/bytes,frames=1", stream=True)) as connection:
        data, _ = read_all(connection, silent_after=lambda data: data.endswith(b"0\r\n\r\n"))
    assert data.partition(b"\r\n\r\n")[2].startswith(b"1\r\nd\r\n1\r\na\r\n")


def test_pings_come_before_the_answer_or_in_place_of_it(upstream: ScriptedUpstream) -> None:
    assert post(upstream, ask("script/pings=3,gap=1ms", stream=True)).text.count(": keep-alive") == 3

    with raw_call(upstream, ask("script/pings,gap=10ms", stream=True)) as connection:
        data = b"".join(connection.recv(65536) for _ in range(5))
    assert b"data:" not in data
    upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)


def test_some_calls_of_a_flapping_script_fail_and_the_others_are_good(upstream: ScriptedUpstream) -> None:
    statuses = [post(upstream, ask("script/flap=2/4")).status_code for _ in range(8)]

    assert statuses == [503, 503, 200, 200] * 2


def test_parallel_calls_can_come_in_turns(upstream: ScriptedUpstream) -> None:
    chunks = stream(upstream, "script/tools=2,interleaved")

    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    indexes = [delta["tool_calls"][0]["index"] for delta in deltas if "tool_calls" in delta]
    assert indexes[:4] == [0, 1, 0, 1]


def test_scripts_are_set_by_key_and_by_model_for_some_calls(upstream: ScriptedUpstream) -> None:
    upstream.script("status=401", key="sk-bad")
    upstream.script("status=500", model="broken", times=1)

    assert post(upstream, ask(), "sk-bad").status_code == 401
    assert post(upstream, ask(), "sk-good").status_code == 200
    assert [post(upstream, ask("broken")).status_code for _ in range(2)] == [500, 200]


def test_settings_with_times_queue_up_before_the_lasting_one(upstream: ScriptedUpstream) -> None:
    upstream.script("status=404")
    upstream.script("status=500", times=1)
    upstream.script("status=503", times=2)

    assert [post(upstream, ask()).status_code for _ in range(5)] == [500, 503, 503, 404, 404]


def test_a_recorded_stream_is_replayed_as_it_stands(upstream: ScriptedUpstream) -> None:
    items = ['data: {"a":', "1}\n\n", {"b": 2}]
    upstream.script(raw={"sse": items, "headers": {"x-thing": "y"}, "delays_ms": {"1": 100}}, model="recorded")
    began = time.monotonic()

    response = post(upstream, ask("recorded"))

    assert response.text == 'data: {"a":1}\n\ndata: {"b":2}\n\n'
    assert response.headers["x-thing"] == "y"
    assert time.monotonic() - began >= 0.1


def test_a_recorded_body_is_replayed_with_its_status(upstream: ScriptedUpstream) -> None:
    upstream.script(raw={"status": 418, "json": {"error": "tea"}}, key="sk-tea")

    response = post(upstream, ask(), "sk-tea")

    assert (response.status_code, response.json()) == (418, {"error": "tea"})


def test_an_unknown_word_is_refused_and_not_ignored(upstream: ScriptedUpstream) -> None:
    with pytest.raises(httpx.HTTPStatusError):
        upstream.script("cutt,frame=1")

    assert post(upstream, ask("script/cut,farme=1")).status_code == 400


def test_a_client_that_leaves_is_noticed_while_nothing_is_sent(upstream: ScriptedUpstream) -> None:
    with raw_call(upstream, ask("script/wait=300s", stream=True)):
        upstream.wait_for(lambda truth: truth["totals"]["open"] == 1)

    attempt = upstream.wait_for(lambda truth: truth["totals"]["open"] == 0)["attempts"][0]
    assert attempt["ended"] == "client_gone"


def test_requests_are_kept_with_their_headers(upstream: ScriptedUpstream) -> None:
    upstream.client.post("chat/completions", json=ask(), headers={"X-Request-Id": "r-1"})

    request = upstream.requests()[0]
    assert request["body"] == ask()
    assert ["X-Request-Id", "r-1"] in request["headers"]
    assert upstream.attempts()[0]["request_id"] == "r-1"


def test_a_chunked_request_body_is_read(upstream: ScriptedUpstream) -> None:
    data = json.dumps(ask()).encode()

    response = upstream.client.post("chat/completions", content=iter([data[:10], data[10:]]))

    assert response.status_code == 200


def test_tools_told_in_words_are_called_in_words(upstream: ScriptedUpstream) -> None:
    described = json.dumps(
        {"name": "get_weather", "parameters": WEATHER["function"]["parameters"]}  # type: ignore[index]
    )
    messages = [
        {"role": "system", "content": f"# Tools\n\n<tools>\n{described}\n</tools>"},
        {"role": "user", "content": "Use get_weather for Paris"},
    ]
    message = post(upstream, {"model": "demo", "messages": messages}).json()["choices"][0]

    called = '<tool_call>\n{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>\n'
    assert (message["message"]["content"], message["finish_reason"]) == (called, "stop")
    answered = (
        '<tool_response name="get_weather">\n18 degrees\n</tool_response>\n\n<system-reminder>\nx\n</system-reminder>'
    )
    messages += [{"role": "assistant", "content": called}, {"role": "user", "content": answered}]
    message = post(upstream, {"model": "demo", "messages": messages}).json()["choices"][0]
    assert message["message"]["content"] == "The tool answered: 18 degrees"
