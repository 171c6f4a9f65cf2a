from typing import Any

import pytest

from tests.translator.core.asking import PNG, PNG_PART, assistant, call, rendered, result, sent, system, text, user
from translator.core.errors import InvalidRequest

GO = user("Go")
MISSING = "[no result: tool call was interrupted]"


def chat(*messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    messages_sent: list[dict[str, Any]] = sent(*messages, **fields)["messages"]
    return messages_sent


def tool(tool_call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": tool_call_id, "content": content}


def calls(*ids: str, content: str | None = None) -> dict[str, Any]:
    function = {"name": "Read", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
    }


ORDER: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "texts of one message are one string": (
        [user(text("a"), text(""), text(" \n"), text("b"))],
        [user("a\n\nb")],
    ),
    "text and image stay parts, in order": (
        [user(PNG, text("What?"))],
        [{"role": "user", "content": [PNG_PART, text("What?")]}],
    ),
    "results come before text": (
        [GO, assistant(call("t1")), user(text("and?"), result("t1", "A"))],
        [GO, calls("t1"), tool("t1", "A"), user("and?")],
    ),
    "results come in the order of the calls": (
        [GO, assistant(call("t1"), call("t2")), user(result("t2", "B"), result("t1", "A"))],
        [GO, calls("t1", "t2"), tool("t1", "A"), tool("t2", "B")],
    ),
    "text around calls is one content": (
        [GO, assistant(text("Before."), call("t1"), text("After.")), user(result("t1", "A"))],
        [GO, calls("t1", content="Before.\n\nAfter."), tool("t1", "A")],
    ),
    "neighbours of one role are joined": (
        [user("a"), user(text("b")), assistant("c"), assistant(text("d")), user("e")],
        [user("a\n\nb"), assistant("c\n\nd"), user("e")],
    ),
    "an assistant message with thinking alone is dropped and its neighbours are joined": (
        [user("a"), assistant({"type": "thinking", "thinking": "t", "signature": "s"}), user("b")],
        [user("a\n\nb")],
    ),
    "an empty user message is dropped": (
        [user("a"), assistant("b"), user(" "), assistant("c"), user("d")],
        [user("a"), assistant("b\n\nc"), user("d")],
    ),
    "a missing result is made up for": (
        [GO, assistant(call("t1"), call("t2")), user(result("t2", "B"), text("stop"))],
        [GO, calls("t1", "t2"), tool("t1", MISSING), tool("t2", "B"), user("stop")],
    ),
    "calls at the end are answered": (
        [GO, assistant(call("t1"))],
        [GO, calls("t1"), tool("t1", MISSING)],
    ),
    "an orphaned result is said as text": (
        [user(result("gone", "old"), text("on"))],
        [user("[Tool result for gone] old\n\non")],
    ),
    "an orphan's image goes along": (
        [user(result("gone", [PNG]))],
        [{"role": "user", "content": [text("[Tool result for gone] [image]"), PNG_PART]}],
    ),
    "a result one message late is moved to its call": (
        [GO, assistant(call("t1")), user("wait"), user(result("t1", "A"))],
        [GO, calls("t1"), tool("t1", "A"), user("wait")],
    ),
    "a result after the next assistant turn is too late": (
        [GO, assistant(call("t1")), user("wait"), assistant("ok"), user(result("t1", "A"))],
        [GO, calls("t1"), tool("t1", MISSING), user("wait"), assistant("ok"), user("[Tool result for t1] A")],
    ),
    "a second result of one call is added to the first": (
        [GO, assistant(call("t1")), user(result("t1", "A"), result("t1", "B"))],
        [GO, calls("t1"), tool("t1", "A\nB")],
    ),
    "ids of a later turn are made unique, with their results": (
        [GO, assistant(call("c0")), user(result("c0", "A")), assistant(call("c0")), user(result("c0", "B"))],
        [GO, calls("c0"), tool("c0", "A"), calls("c0_2"), tool("c0_2", "B")],
    ),
    "a made-up id avoids those that are there": (
        [GO, assistant(call("c0_2"), call("c0"), call("c0")), user(result("c0", "A"), result("c0", "B"))],
        [GO, calls("c0_2", "c0", "c0_3"), tool("c0_2", MISSING), tool("c0", "A"), tool("c0_3", "B")],
    ),
    "media out of results follow all results, behind the text": (
        [GO, assistant(call("t1"), call("t2")), user(text("see"), result("t1", [text("1x1"), PNG]), result("t2"))],
        [
            GO,
            calls("t1", "t2"),
            tool("t1", "1x1"),
            tool("t2", "done"),
            {"role": "user", "content": [text("see"), text("Image(s) returned by tool call t1:"), PNG_PART]},
        ],
    ),
    "a result without text names its media": (
        [GO, assistant(call("t1")), user(result("t1", [PNG]))],
        [
            GO,
            calls("t1"),
            tool("t1", "[image]"),
            {"role": "user", "content": [text("Image(s) returned by tool call t1:"), PNG_PART]},
        ],
    ),
    "texts of a result are lines": (
        [GO, assistant(call("t1")), user(result("t1", [text("one"), text(""), text("two")]))],
        [GO, calls("t1"), tool("t1", "one\ntwo")],
    ),
    "an empty result is empty": (
        [GO, assistant(call("t1"), call("t2")), user(result("t1", ""), {"type": "tool_result", "tool_use_id": "t2"})],
        [GO, calls("t1", "t2"), tool("t1", ""), tool("t2", "")],
    ),
    "a failure is said": (
        [
            GO,
            assistant(call("a"), call("b"), call("c")),
            user(
                result("a", "no", is_error=True),
                result("b", "ERROR: no", is_error=True),
                result("c", "", is_error=True),
            ),
        ],
        [GO, calls("a", "b", "c"), tool("a", "Error: no"), tool("b", "ERROR: no"), tool("c", "Error: no output")],
    ),
    "a result in an assistant message is said as text": (
        [GO, assistant(result("t1", "A")), user("ok")],
        [GO, assistant("Tool result: A"), user("ok")],
    ),
    "a conversation may begin with the assistant": ([assistant("Hi"), GO], [assistant("Hi"), GO]),
    "the answer's beginning ends without space": ([GO, assistant("Once upon \n")], [GO, assistant("Once upon")]),
}


@pytest.mark.parametrize(("messages", "expected"), ORDER.values(), ids=ORDER)
def test_messages_are_put_in_the_order_upstreams_take(messages: list[dict[str, Any]], expected: list[dict[str, Any]]):
    assert chat(*messages) == expected


SYSTEM: dict[str, tuple[str, list[dict[str, Any]], list[dict[str, Any]]]] = {
    "user: in place, as a reminder": (
        "user",
        [GO, system("Be quick."), assistant("ok"), user("on")],
        [system("Top."), user("Go\n\n<system-reminder>\nBe quick.\n</system-reminder>"), assistant("ok"), user("on")],
    ),
    "user: behind the results it stands before": (
        "user",
        [GO, assistant(call("t1")), system([text("Be"), text("quick.")]), user(result("t1", "A"))],
        [system("Top."), GO, calls("t1"), tool("t1", "A"), user("<system-reminder>\nBe\n\nquick.\n</system-reminder>")],
    ),
    "inline: in place": (
        "inline",
        [GO, system("Be quick."), assistant("ok"), user("on"), system("Last.")],
        [system("Top."), GO, system("Be quick."), assistant("ok"), user("on"), system("Last.")],
    ),
    "inline: never between a call and its result": (
        "inline",
        [GO, assistant(call("t1")), system("Be quick."), user(result("t1", "A"))],
        [system("Top."), GO, calls("t1"), tool("t1", "A"), system("Be quick.")],
    ),
    "inline: media stay with the user's words": (
        "inline",
        [GO, assistant(call("t1")), user(result("t1", [text("A"), PNG]), text("see")), system("Be quick.")],
        [
            system("Top."),
            GO,
            calls("t1"),
            tool("t1", "A"),
            {"role": "user", "content": [text("see"), text("Image(s) returned by tool call t1:"), PNG_PART]},
            system("Be quick."),
        ],
    ),
    "inline: neighbours are one": (
        "inline",
        [GO, system("One."), system("Two."), user("on")],
        [system("Top."), GO, system("One.\n\nTwo."), user("on")],
    ),
    "hoist: up to the first message": (
        "hoist",
        [GO, system("Be quick."), assistant("ok"), user("on")],
        [system("Top.\n\nBe quick."), GO, assistant("ok"), user("on")],
    ),
    "first of all: part of the system prompt": (
        "inline",
        [system("Zero."), GO],
        [system("Top.\n\nZero."), GO],
    ),
    "without text: nothing": (
        "user",
        [GO, system(""), {"role": "system"}, system([{"type": "tool_removal", "tool": {"name": "x"}}]), user("on")],
        [system("Top."), user("Go\n\non")],
    ),
    "cleared by a later user message": (
        "user",
        [GO, system("Old.", clear_at="next_user_message"), user("on"), system("New.", clear_at="next_user_message")],
        [system("Top."), user("Go\n\non\n\n<system-reminder>\nNew.\n</system-reminder>")],
    ),
}


@pytest.mark.parametrize(("place", "messages", "expected"), SYSTEM.values(), ids=SYSTEM)
def test_system_messages_amid_the_conversation(
    place: str, messages: list[dict[str, Any]], expected: list[dict[str, Any]]
):
    assert chat(*messages, system="Top.", switches={"system_mid": place}) == expected


@pytest.mark.parametrize("messages", [[user(" ")], [system("Hi")], [user({"type": "container_upload"})]])
def test_a_conversation_without_words_is_refused(messages: list[dict[str, Any]]):
    with pytest.raises(InvalidRequest, match="messages: at least one message with content is required"):
        sent(*messages)


CONTENT_NULL: list[tuple[str, dict[str, Any]]] = [("null", {"content": None}), ("empty", {"content": ""}), ("omit", {})]


@pytest.mark.parametrize(("word", "content"), CONTENT_NULL)
def test_the_content_of_calls_without_text_is_the_profiles(word: str, content: dict[str, Any]):
    message = chat(GO, assistant(call("t1")), switches={"content_null": word})[1]

    assert {key: value for key, value in message.items() if key == "content"} == content


def test_an_empty_result_may_need_words():
    messages = chat(GO, assistant(call("t1")), user(result("t1", "")), switches={"empty_tool_content": "(no output)"})

    assert messages[2] == tool("t1", "(no output)")


def test_mistral_ids_are_nine_letters_and_digits_on_both_sides():
    messages = chat(GO, assistant(call("toolu_1"), call("abcDEF123")), user(result("toolu_1", "A")), profile="mistral")

    first, second = (each["id"] for each in messages[1]["tool_calls"])
    assert len(first) == 9
    assert first.isalnum()
    assert second == "abcDEF123"
    assert [message["tool_call_id"] for message in messages[2:]] == [first, second]


def test_mistral_gets_no_user_message_right_after_tools():
    messages = chat(GO, assistant(call("t1")), user(result("t1", "A"), text("on")), profile="mistral")

    assert messages[2:] == [tool(messages[1]["tool_calls"][0]["id"], "A\n\non")]


def test_mistral_gets_an_assistant_between_tools_and_an_image():
    messages = chat(GO, assistant(call("t1")), user(result("t1", [PNG])), profile="mistral")

    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]


def test_long_ids_are_shortened_where_the_upstream_counts():
    long_id = "toolu_" + "x" * 60

    messages = chat(GO, assistant(call(long_id), call("t1")), user(result(long_id, "A")), profile="openai")

    short_id = messages[1]["tool_calls"][0]["id"]
    assert len(short_id) == 40
    assert messages[2] == tool(short_id, "A")
    assert messages[1]["tool_calls"][1]["id"] == "t1"


def test_calls_of_the_history_carry_what_the_profile_adds():
    messages = chat(GO, assistant(call("t1")), profile="gemini")

    google = messages[1]["tool_calls"][0]["extra_content"]["google"]
    assert google == {"thought_signature": "skip_thought_signature_validator"}


def test_arguments_are_compact_json():
    tool_input = {"a": {"b": [1, 2.5, None, True]}, "名": "値"}

    messages = chat(GO, assistant(call("t1", tool_input=tool_input)))

    assert messages[1]["tool_calls"][0]["function"]["arguments"] == '{"a":{"b":[1,2.5,null,true]},"名":"値"}'


@pytest.mark.parametrize("tool_input", [{"input": None}, {}])
def test_a_call_without_input_has_no_arguments(tool_input: dict[str, Any]):
    messages = chat(GO, assistant({"type": "tool_use", "id": "t1", "name": "Read", **tool_input}))

    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


PREFILLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("plain", {}, {}),
    ("prefix", {"prefix": True}, {}),
    ("continue", {}, {"continue_final_message": True, "add_generation_prompt": False}),
]


@pytest.mark.parametrize(("word", "on_message", "on_body"), PREFILLS)
def test_a_prefill_is_marked_as_the_profile_says(word: str, on_message: dict[str, Any], on_body: dict[str, Any]):
    body = sent(GO, assistant("Once "), switches={"prefill": word})

    assert body["messages"][1] == {"role": "assistant", "content": "Once", **on_message}
    assert {key: body[key] for key in ("continue_final_message", "add_generation_prompt") if key in body} == on_body


def test_a_prefill_may_be_refused():
    with pytest.raises(InvalidRequest, match=r"^This model does not support assistant message prefill\."):
        sent(GO, assistant("Once"), switches={"prefill": "reject"})


def test_repairs_are_noted_once_each():
    answer = rendered(GO, assistant(call("c"), call("c")), user("on"), assistant("ok"), user(result("a"), result("b")))

    assert answer.notes == ("tool_id_repeated", "tool_result_missing", "tool_result_orphaned")


def test_the_answer_must_not_use_an_id_of_the_history():
    answer = rendered(GO, assistant(call("c")), user(result("c")), assistant(call("c")), user(result("c"))).answer

    assert answer.history_tool_ids == {"c", "c_2"}
