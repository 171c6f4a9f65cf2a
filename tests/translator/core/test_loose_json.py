"""One broken character does not make a chunk unreadable."""

import pytest

from translator.core.loose_json import loads, mend, mend_all

READ = {
    b'{"a":"\xc3\xa9"}': {"a": "é"},
    b'{"a":"\xff"}': {"a": "\ufffd"},
    b'{"a":"\\ud83d"}': {"a": "\ud83d"},
    b'["\\ud83d",' + b"9" * 30 + b",1]": ["\ud83d", 1e30, 1],
}


@pytest.mark.parametrize("data", READ)
def test_a_broken_character_is_read(data):
    assert loads(data) == READ[data]


@pytest.mark.parametrize("data", [b"", b"x", b"{", b"[" * 100_000, "{'a':1}"])
def test_what_is_no_json_is_refused(data):
    with pytest.raises(ValueError, match=r"."):
        loads(data)


MENDED = {
    "plain": "plain",
    "é🚀": "é🚀",
    "\ud83d\ude80": "🚀",
    "a\ud83d": "a\ufffd",
    "\ude80b": "\ufffdb",
}


@pytest.mark.parametrize("text", MENDED)
def test_halves_are_joined_or_replaced(text):
    assert mend(text) == MENDED[text]


def test_halves_are_found_at_any_depth():
    assert mend_all({"\ud83d": ["\ude80", {"a": None}, 1]}) == {"\ufffd": ["\ufffd", {"a": None}, 1]}


def test_a_value_too_deep_to_mend_is_refused():
    value: list[object] = []
    for _ in range(5000):
        value = [value]

    with pytest.raises(ValueError, match="deep"):
        mend_all(value)
