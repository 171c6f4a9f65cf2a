"""Whatever passes the schema is translated, and what comes out keeps the rules that upstreams insist on."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from translator.core.anthropic.request import MessagesRequest, parse_request
from translator.core.errors import InvalidRequest
from translator.core.estimate import estimate_chat_tokens, estimate_input_tokens
from translator.core.facts import ModelFacts
from translator.core.openai_chat.request import render_request
from translator.core.profiles import PROFILES

WORDS = st.text(alphabet=st.sampled_from(list('ab \n\0"\\é値😀:{')), max_size=6)
NAMES = st.sampled_from(["Read", "a.b", "x" * 70, "web_search"])
IDS = st.sampled_from(["t1", "t2", "t3", "t1_2", "call-with-a-long-id-" * 3])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields}, optional={"cache_control": st.just({})})


SOURCES = (
    block("base64", media_type=st.sampled_from(["image/png", "application/pdf"]), data=WORDS)
    | block("url", url=st.sampled_from(["https://e.example/a", "file:///a", ""]))
    | block("file", file_id=WORDS)
    | block("text", data=WORDS)
    | block("content", content=WORDS)
    | block("later")
)
TEXTS = block("text", text=WORDS)
COMMON = (
    TEXTS
    | block("image", source=SOURCES)
    | block("document", source=SOURCES)
    | block("search_result", content=st.lists(TEXTS, max_size=2))
    | block("later", text=JSON, data=JSON)
    | block("tool_reference", tool_name=JSON)
    | block("compaction", content=JSON)
    | block("browser_state", state=JSON)
)
RESULTS = st.fixed_dictionaries(
    {"type": st.just("tool_result"), "tool_use_id": IDS},
    optional={"content": st.none() | WORDS | st.lists(COMMON, max_size=3), "is_error": st.booleans()},
)
CALLS = st.fixed_dictionaries(
    {"type": st.just("tool_use"), "id": IDS, "name": NAMES}, optional={"input": OBJECTS | st.none()}
)
THOUGHTS = st.fixed_dictionaries(
    {"type": st.just("thinking")},
    optional={"thinking": WORDS, "signature": st.sampled_from(["", "EqQB", "gw1.", "gw1.e30", "gw1.!"])},
)
SERVER = block("server_tool_use", input=JSON) | block("web_search_tool_result", content=JSON)
CHANGES = block("tool_removal", tool=st.fixed_dictionaries({"name": NAMES})) | block(
    "tool_addition", tool=st.fixed_dictionaries({"definition": st.fixed_dictionaries({"name": NAMES})})
)


def message(role: str, blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    content = WORDS | st.lists(blocks, max_size=4)
    return st.fixed_dictionaries({"role": st.just(role), "content": content})


MESSAGES = st.lists(
    message("user", COMMON | RESULTS | RESULTS)
    | message("assistant", CALLS | CALLS | TEXTS | THOUGHTS | SERVER | RESULTS | COMMON)
    | message("system", TEXTS | CHANGES | COMMON),
    min_size=1,
    max_size=8,
)
TOOLS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"input_schema": OBJECTS, "input_examples": JSON, "strict": JSON})
    | st.fixed_dictionaries({"type": st.sampled_from(["bash_20250124", "web_search_20250305", "later"])}),
    max_size=3,
    unique_by=lambda tool: str(tool.get("name")),
)
BODIES = st.fixed_dictionaries(
    {"model": st.just("m"), "max_tokens": st.integers(0, 9), "messages": MESSAGES},
    optional={
        "tools": TOOLS,
        "tool_choice": st.fixed_dictionaries({"type": st.sampled_from(["auto", "any", "none"])}),
        "system": WORDS | st.lists(TEXTS | COMMON, max_size=2),
        "thinking": st.fixed_dictionaries({"type": WORDS | st.sampled_from(["enabled", "adaptive", "disabled"])}),
        "output_config": st.fixed_dictionaries({}, optional={"effort": JSON}),
        "stop_sequences": st.lists(WORDS, max_size=6),
        "metadata": st.fixed_dictionaries({"user_id": WORDS}),
        "service_tier": JSON,
        "container": JSON,
        "stream": st.booleans(),
    },
)
MODELS = st.builds(
    ModelFacts,
    name=st.sampled_from(["up", "gpt-5"]),
    vision=st.none() | st.booleans(),
    pdf=st.none() | st.booleans(),
    reasoning=st.none() | st.booleans(),
)


def parsed(body: Any) -> MessagesRequest | None:
    try:
        return parse_request(orjson.dumps(body))
    except InvalidRequest:
        return None


@given(body=BODIES, model=MODELS, name=st.sampled_from(list(PROFILES)))
@settings(max_examples=300)
def test_what_is_sent_keeps_the_rules_of_chat_upstreams(body: dict[str, Any], model: ModelFacts, name: str):
    request = parsed(body)
    if request is None:
        return
    before = orjson.dumps(request.body)
    try:
        answer = render_request(request, profile=PROFILES[name], model=model)
    except InvalidRequest:
        return

    assert orjson.dumps(request.body) == before
    check_chat_body(orjson.loads(orjson.dumps(answer.body)))
    assert b"\\u0000" not in orjson.dumps(answer.body["messages"])
    assert answer.answer.input_estimate >= 1
    assert estimate_chat_tokens(answer.body) >= 1


def check_chat_body(body: dict[str, Any]) -> None:
    """Assert what no upstream forgives."""
    assert body["messages"]
    waiting: list[str] = []
    seen: set[str] = set()
    last = ""
    for each in body["messages"]:
        role, content = each["role"], each.get("content")
        if role == "tool":
            assert each["tool_call_id"] == waiting.pop(0), "a result follows its call, in the order of the calls"
            assert isinstance(content, str)
        else:
            assert not waiting, "all calls are answered before anybody speaks"
            assert role != last, "roles alternate"
        if role == "assistant":
            ids = [call["id"] for call in each.get("tool_calls", [])]
            assert ids or content, "an assistant message says or calls something"
            assert not seen & set(ids), "ids are unique"
            assert len(ids) == len(set(ids))
            assert all(isinstance(orjson.loads(c["function"]["arguments"]), dict) for c in each.get("tool_calls", []))
            waiting, seen = ids, seen | set(ids)
        if role in ("user", "system"):
            check_content(content)
        last = role
    assert not waiting
    assert body.get("tools", True), "no empty list of tools"
    assert "tools" in body or not {"tool_choice", "parallel_tool_calls"} & body.keys()


def check_content(content: Any) -> None:
    """Assert that there is one, and that no part of it is empty."""
    assert content
    if isinstance(content, list):
        assert all(part["type"] != "text" or part["text"] for part in content)


@given(body=st.dictionaries(st.sampled_from(["model", "max_tokens", "messages", "tools", "system", "thinking"]), JSON))
def test_arbitrary_json_is_refused_in_words_or_read(body: dict[str, Any]):
    request = parsed(body)

    assert request is None or estimate_input_tokens(request) >= 1


@given(raw=st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_in_words(raw: bytes):
    with pytest.raises(InvalidRequest):
        parse_request(raw)


@given(tree=st.dictionaries(st.text(), JSON))
def test_no_legal_json_is_taken_for_one_with_a_key_twice(tree: dict[str, Any]):
    with pytest.raises(InvalidRequest, match=r"Field required|Input should|String should|at least one message"):
        parse_request(orjson.dumps(tree))
