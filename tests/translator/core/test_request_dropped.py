"""What chat upstreams have no word for reaches none of them, whatever it holds."""

from typing import Any

import orjson
import pytest

from tests.translator.core.asking import PNG, READ, assistant, call, result, sent, system, text, user
from translator.core.profiles import PROFILES

LOST = "nobody-may-see-this"
EPHEMERAL = {"cache_control": {"type": LOST}}
CITED = {"citations": [{"type": "char_location", "cited_text": LOST}]}
SOURCE = {"type": "text", "media_type": "text/plain", "data": "heron"}

FIELDS: dict[str, dict[str, Any]] = {
    "at the top": {
        "betas": [LOST],
        "billing_policy": {"type": LOST},
        "container": {"id": LOST, "skills": [{"skill_id": LOST}]},
        "context_management": {"edits": [{"type": LOST}]},
        "diagnostics": {"previous_message_id": LOST},
        "fallback_credit_token": {"token": LOST},
        "fallbacks": [{"model": LOST}],
        "inference_geo": LOST,
        "metadata": {"user_id": LOST, "more": LOST},
        "output_config": {"task_budget": {"type": LOST}},
        "service_tier": LOST,
        "speed": LOST,
        "user_profile_id": LOST,
        "workspace_id": LOST,
        "a_later_field": LOST,
        **EPHEMERAL,
    },
    "of thinking": {"thinking": {"type": "adaptive", "display": LOST, "block_binding": {"type": LOST}}},
    "of a system block": {"system": [{"type": "text", "text": "Be brief.", **EPHEMERAL, "citations": [LOST]}]},
    "of a tool": {
        "tools": [
            {**READ, "defer_loading": True, "eager_input_streaming": True, "allowed_callers": ["direct"], **EPHEMERAL},
            {"type": "web_search_20250305", "name": LOST, "allowed_domains": [LOST], "user_location": {"city": LOST}},
            {"type": "mcp_toolset", "mcp_server_name": LOST},
        ]
    },
}

BLOCKS: dict[str, list[dict[str, Any]]] = {
    "text": [user({**text("Hi"), **EPHEMERAL, **CITED})],
    "image": [user({**PNG, **EPHEMERAL, "transformations": {"oversized_image": LOST}})],
    "document": [user({"type": "document", "source": SOURCE, **EPHEMERAL, "citations": {"enabled": LOST}})],
    "search result": [
        user({"type": "search_result", "content": [text("a")], "source": "s", "title": "t", **EPHEMERAL, **CITED})
    ],
    "container upload": [user(text("Hi"), {"type": "container_upload", "file_id": LOST})],
    "tool reference": [user({"type": "tool_reference", "tool_name": "Read", "name": LOST, **EPHEMERAL})],
    "compaction": [
        user(
            {"type": "compaction", "content": "a", "encrypted_content": LOST, "signature": LOST, "tool_changes": [LOST]}
        )
    ],
    "call and result": [
        user("Go"),
        assistant({**call("t1"), "caller": {"type": LOST}, "toolset_name": LOST, **EPHEMERAL}),
        user({**result("t1"), "toolset_name": LOST, **EPHEMERAL}),
    ],
    "what servers did": [
        user("Go"),
        assistant(
            text("a"),
            {"type": "server_tool_use", "id": LOST, "name": LOST, "input": {"query": LOST}},
            {"type": "mcp_tool_use", "id": LOST, "name": LOST, "server_name": LOST, "input": {}},
            {"type": "mcp_tool_listing", "mcp_server_name": LOST, "tools": [{"name": LOST}]},
            {"type": "fallback", "from": {"model": LOST}, "to": {"model": LOST}},
            {"type": "redacted_thinking", "data": LOST},
            {"type": "web_search_tool_result", "tool_use_id": LOST, "content": [{"encrypted_content": LOST}]},
        ),
        user("On"),
    ],
    "changes of tools": [
        user("Go"),
        system([{"type": "tool_removal", "tool": {"type": "mcp_toolset_reference", "server_name": LOST}, **EPHEMERAL}]),
    ],
}


def assert_lost(body: dict[str, Any]) -> None:
    assert LOST.encode() not in orjson.dumps(body)


@pytest.mark.parametrize("profile", ["plain", "deepseek", "openrouter"])
@pytest.mark.parametrize("place", FIELDS)
def test_no_such_field_reaches_the_upstream(place: str, profile: str) -> None:
    assert_lost(sent(profile=profile, **FIELDS[place]))


@pytest.mark.parametrize("profile", ["plain", "mistral", "gemini"])
@pytest.mark.parametrize("block", BLOCKS)
def test_no_such_part_of_a_block_reaches_the_upstream(block: str, profile: str) -> None:
    assert_lost(sent(*BLOCKS[block], profile=profile))


def test_the_profiles_are_there() -> None:
    assert {"plain", "deepseek", "openrouter", "mistral", "gemini"} <= PROFILES.keys()
