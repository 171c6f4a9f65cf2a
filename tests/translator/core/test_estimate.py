from typing import Any

import pytest

from tests.translator.core.asking import PNG, READ, asked, assistant, call, result, text, user
from translator.core.estimate import estimate_chat_tokens, estimate_input_tokens

PROSE = "The quick brown fox jumps over the lazy dog. " * 100
#: Tokens of common tokenizers: 10 a sentence.
PROSE_TOKENS = 1_000


def estimate(*messages: dict[str, Any], **fields: Any) -> int:
    return estimate_input_tokens(asked(*messages, **fields))


def document(source: dict[str, Any]) -> dict[str, Any]:
    return {"type": "document", "source": source}


COUNTED: dict[str, dict[str, Any]] = {
    "words of a message": {"messages": [user(PROSE)]},
    "a text block": {"messages": [user(text(PROSE))]},
    "a system prompt": {"system": PROSE},
    "a tool's description": {"tools": [READ | {"description": PROSE}]},
    "arguments of a call": {"messages": [user("Hi"), assistant(call("t1", tool_input={"path": PROSE}))]},
    "a result": {"messages": [user("Hi"), assistant(call("t1")), user(result("t1", [text(PROSE)]))]},
    "a document": {"messages": [user(document({"type": "text", "data": PROSE}))]},
    "a document of blocks": {"messages": [user(document({"type": "content", "content": [text(PROSE)]}))]},
    "a search result": {"messages": [user({"type": "search_result", "content": [text(PROSE)]})]},
    "a block of a later kind": {"messages": [user({"type": "hologram", "text": PROSE})]},
    "a schema of the answer": {
        "output_config": {"format": {"type": "json_schema", "schema": {"description": PROSE}}},
    },
}


@pytest.mark.parametrize("fields", COUNTED.values(), ids=COUNTED)
def test_what_the_model_reads_is_counted_rather_high_than_low(fields: dict[str, Any]):
    tokens = estimate(*fields.pop("messages", []), **fields) - estimate()

    assert PROSE_TOKENS <= tokens <= 1.5 * PROSE_TOKENS


UNCOUNTED: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": PROSE, "signature": PROSE},
    {"type": "redacted_thinking", "data": PROSE},
    {"type": "hologram", "encrypted_content": PROSE},
]


@pytest.mark.parametrize("block", UNCOUNTED)
def test_what_the_model_does_not_read_again_is_not_counted(block: dict[str, Any]):
    assert estimate(user("Hi"), assistant(block, text("Hello"))) < 30


def test_the_line_of_accounting_is_not_counted():
    assert estimate(system=[text(f"x-anthropic-billing-header: {PROSE}")]) == estimate()


def test_each_media_costs_about_what_models_charge():
    assert 1_000 < estimate(user(PNG)) < 2_000
    assert estimate(user(document({"type": "base64", "media_type": "application/pdf", "data": "x" * 400_000}))) > 9_000
    assert estimate(user(document({"type": "url", "url": "https://e.example"}))) > 1_000


def test_a_cjk_character_is_most_of_a_token():
    assert 600 < estimate(user("値" * 1_000)) < 1_000


def test_numbers_are_dense():
    assert 40 < estimate(user("2026-11-30T19:59:12.345Z status=200 ms=991 " * 2)) < 70


def test_more_is_never_less():
    counts = [estimate(user("x" * length)) for length in range(0, 2_000, 100) if length]

    assert counts == sorted(counts)


def test_the_factor_calibrates():
    assert estimate_input_tokens(asked(user(PROSE)), factor=2.0) == pytest.approx(2 * estimate(user(PROSE)), abs=2)
    assert estimate_input_tokens(asked(), factor=0.0) == 1


CHAT: list[tuple[Any, int, int]] = [
    ({}, 1, 1),
    ({"messages": 5}, 1, 1),
    ({"messages": [5, {"role": "assistant", "content": None}]}, 1, 20),
    ({"messages": [{"content": PROSE}]}, 1_000, 1_500),
    ({"messages": [{"content": [{"type": "text", "text": PROSE}]}]}, 1_000, 1_500),
    ({"messages": [{"content": [{"type": "input_audio", "x": PROSE}]}]}, 1_000, 1_500),
    ({"messages": [{"content": [{"type": "image_url", "image_url": {"url": PROSE}}]}]}, 1_400, 1_600),
    ({"messages": [{"content": [{"type": "file", "file": {}}]}]}, 1_900, 2_100),
    ({"messages": [{"content": "", "tool_calls": [{"function": {"arguments": PROSE}}]}]}, 1_000, 1_500),
    ({"messages": [], "tools": [{"function": {"description": PROSE}}]}, 1_000, 1_500),
]


@pytest.mark.parametrize(("body", "least", "most"), CHAT)
def test_a_chat_body_is_counted_whatever_it_holds(body: Any, least: int, most: int):
    assert least <= estimate_chat_tokens(body) <= most
