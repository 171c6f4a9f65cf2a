from typing import Any

import pytest

from tests.translator.core.asking import PNG, PNG_PART, assistant, call, rendered, result, sent, text, user
from translator.core.errors import UnsupportedFeature


def document(source: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **fields}


PLAIN_TEXT = {"type": "text", "media_type": "text/plain", "data": "heron"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0"}
PDF_PART = {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERi0"}}
NO_IMAGES = "[image omitted: this model does not accept images]"
NO_PDF = "[document omitted: this model does not accept PDF files]"


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": source}


USER_BLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "image by address": (
        image(type="url", url="https://img.example/a.png"),
        {},
        [{"type": "image_url", "image_url": {"url": "https://img.example/a.png"}}],
    ),
    "image by address, where none is taken": (
        image(type="url", url="https://img.example/a.png"),
        {"image_urls": False},
        "[image omitted: this upstream does not accept image addresses]",
    ),
    "image by data address": (
        image(type="url", url="data:image/png;base64,iVBOR"),
        {"image_urls": False},
        [PNG_PART],
    ),
    "image as lines of base64": (image(type="base64", media_type="image/png", data="iVB\nOR\r\n"), {}, [PNG_PART]),
    "image as base64 that is an address": (
        image(type="base64", media_type="image/jpeg", data="data:image/png;base64,iVBOR"),
        {},
        [PNG_PART],
    ),
    "image in a file of the upstream's machine": (
        image(type="url", url="file:///etc/passwd"),
        {},
        "[image omitted: its source is of an unknown kind]",
    ),
    "image of a later kind": (
        image(type="hologram"),
        {},
        "[image omitted: its source is of an unknown kind]",
    ),
    "image, where none is taken": (PNG, {"vision": False}, NO_IMAGES),
    "text document": (document(PLAIN_TEXT), {}, "<document>\nheron\n</document>"),
    "text document with title and context": (
        document(PLAIN_TEXT, title="birds", context="A list."),
        {},
        '<document title="birds">\nA list.\nheron\n</document>',
    ),
    "document of blocks": (
        document({"type": "content", "content": [text("heron"), PNG, text("otter")]}),
        {},
        [text("<document>\nheron\n\notter\n</document>"), PNG_PART],
    ),
    "document of a string": (
        document({"type": "content", "content": "heron"}),
        {},
        "<document>\nheron\n</document>",
    ),
    "PDF": (document(PDF), {"pdf": True}, [PDF_PART]),
    "PDF, where none is taken": (document(PDF), {}, NO_PDF),
    "PDF with a title, where none is taken": (
        document(PDF, title="a.pdf"),
        {},
        f'<document title="a.pdf">\n{NO_PDF}\n</document>',
    ),
    "text document in base64": (
        document({"type": "base64", "media_type": "text/markdown", "data": "aGVyb24"}, title="birds"),
        {},
        '<document title="birds">\nheron\n</document>',
    ),
    "text document in what is no base64": (
        document({"type": "base64", "media_type": "text/plain", "data": "a"}),
        {},
        "[document omitted: its source is of an unknown kind]",
    ),
    "document in base64 that is no PDF": (
        document({"type": "base64", "media_type": "application/zip", "data": "UEsD"}),
        {"pdf": True},
        "[document omitted: its source is of an unknown kind]",
    ),
    "document of a later kind": (
        document({"type": "hologram"}),
        {},
        "[document omitted: its source is of an unknown kind]",
    ),
    "search result": (
        {"type": "search_result", "source": "https://e.example", "title": "T", "content": [text("found"), text("it")]},
        {},
        "T\nhttps://e.example\nfound\nit",
    ),
    "tool reference": ({"type": "tool_reference", "tool_name": "Exit"}, {}, "Tool loaded: Exit"),
    "browser state": ({"type": "browser_state", "url": "x", "cache_control": {}}, {}, '{"url":"x"}'),
    "compaction": (
        {"type": "compaction", "content": "All went well."},
        {},
        "Summary of the earlier conversation:\nAll went well.",
    ),
    "a later kind with text": ({"type": "hologram", "text": "seen"}, {}, "seen"),
}


@pytest.mark.parametrize(("block", "switches", "expected"), USER_BLOCKS.values(), ids=USER_BLOCKS)
def test_a_block_of_the_user_becomes(block: dict[str, Any], switches: dict[str, Any], expected: Any):
    body = sent(user(block), switches=switches)

    assert body["messages"] == [{"role": "user", "content": expected}]


SILENT_BLOCKS = [
    {"type": "container_upload", "file_id": "f"},
    {"type": "compaction", "content": None},
    {"type": "hologram", "data": {"x": 1}},
    {"type": "thinking", "thinking": "t"},
    {"type": "redacted_thinking", "data": "EmwK"},
    {"type": "fallback"},
    {"type": "tool_reference"},
]


@pytest.mark.parametrize("block", SILENT_BLOCKS)
def test_a_block_that_says_nothing_is_left_out(block: dict[str, Any]):
    assert sent(user(block, text("Go")))["messages"] == [user("Go")]
    assert sent(user("Hi"), assistant(block, text("Hello")), user("Go"))["messages"][1] == assistant("Hello")


FILES: list[tuple[dict[str, Any], str]] = [
    (image(type="file", file_id="f"), "file"),
    (document({"type": "file", "file_id": "f"}), "file"),
    (document({"type": "url", "url": "https://e.example/a.pdf"}), "url"),
]


@pytest.mark.parametrize(("block", "kind"), FILES)
def test_a_source_only_anthropic_can_read_is_refused(block: dict[str, Any], kind: str):
    message = rf"^messages\.0\.content\.1\.source: {kind} sources are not supported by this gateway$"

    with pytest.raises(UnsupportedFeature, match=message):
        sent(user(text("See"), block))


def test_such_a_source_in_a_result_is_named_by_its_path():
    bad = result("t1", [image(type="file", file_id="f")])

    with pytest.raises(UnsupportedFeature, match=r"^messages\.2\.content\.0\.content\.0\.source: "):
        sent(user("Hi"), assistant(call("t1")), user(bad))


FACTS: list[tuple[dict[str, Any], bool, bool]] = [
    ({}, True, False),
    ({"vision": False, "pdf": True}, False, True),
    ({"vision": True, "pdf": False}, True, False),
]


@pytest.mark.parametrize(("facts", "vision", "pdf"), FACTS)
def test_what_is_known_of_the_model_beats_the_profile(facts: dict[str, Any], vision: bool, pdf: bool):
    parts = sent(user(PNG, document(PDF), text("Go")), facts=facts)["messages"][0]["content"]

    assert (PNG_PART in parts) is vision
    assert (PDF_PART in parts) is pdf


def test_a_pdf_out_of_a_result_follows_in_a_user_message():
    messages = sent(user("Hi"), assistant(call("t1")), user(result("t1", [document(PDF)])), switches={"pdf": True})[
        "messages"
    ]

    assert messages[2]["content"] == "[document]"
    assert messages[3]["content"] == [text("File(s) returned by tool call t1:"), PDF_PART]


SERVER_RESULTS: list[tuple[dict[str, Any], str]] = [
    (
        {
            "type": "web_search_tool_result",
            "content": [
                {"type": "web_search_result", "title": "A", "url": "https://a.example", "encrypted_content": "Eq"},
                {"type": "web_search_result", "title": "B", "url": "https://b.example", "encrypted_content": "Er"},
            ],
        },
        "A - https://a.example\nB - https://b.example",
    ),
    ({"type": "web_search_tool_result", "content": {"error_code": "unavailable"}}, "unavailable"),
    (
        {
            "type": "code_execution_tool_result",
            "content": {"stdout": "1", "stderr": "", "content": [{"file_id": "f"}], "encrypted_stdout": "x"},
        },
        "1",
    ),
    ({"type": "mcp_tool_result", "content": [{"type": "text", "text": "done"}]}, "done"),
    ({"type": "mcp_tool_result", "content": "done"}, "done"),
    ({"type": "mcp_tool_result", "content": [None, {"type": "text", "text": "done"}]}, "done"),
]


@pytest.mark.parametrize(("block", "expected"), SERVER_RESULTS)
def test_a_server_tool_of_another_time_is_told_by_its_result(block: dict[str, Any], expected: str):
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}

    message = sent(user("Hi"), assistant(use, block, text("So.")), user("Go"))["messages"][1]

    assert message == assistant(f"{expected}\n\nSo.")


def test_a_server_result_without_words_is_left_out():
    block = {"type": "advisor_tool_result", "content": {"encrypted_content": "Eq"}}

    assert sent(user("Hi"), assistant(block, text("So.")), user("Go"))["messages"][1] == assistant("So.")


def test_media_left_out_are_noted():
    assert rendered(user(PNG, {"type": "hologram"}), switches={"vision": False}).notes == (
        "media_omitted",
        "block_dropped",
    )


def test_nul_is_stripped_everywhere():
    nul_tool = {"name": "Read", "description": "a\0b", "input_schema": {"properties": {"p\0": {"type": "string"}}}}

    body = sent(
        user("x\0y"),
        assistant(call("t1", tool_input={"k\0": ["v\0", 1]})),
        user(result("t1", "ELF\0\x01")),
        system="s\0",
        tools=[nul_tool],
    )

    assert "\0" not in repr(body)
    assert "\\u0000" not in repr(body)
    assert body["messages"][3]["content"] == "ELF\x01"
