"""What a follow-up repeats of an answer is dropped; and how it is asked for."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.core.openai_chat.follow_up import ASK, TAIL, follow_up
from translator.core.openai_chat.trail import Trail
from translator.core.switches import Profile

JOINED = {
    "nothing repeated": ("The quick brown ", "fox", "The quick brown fox"),
    "a few words": ("The quick brown ", "quick brown fox", "The quick brown fox"),
    "the whole": ("The quick brown fox", "The quick brown fox jumps", "The quick brown fox jumps"),
    "the whole, a long one": ("The fox. " * 30, "The fox. " * 30 + "Over", "The fox. " * 30 + "Over"),
    "white space that was lost": ("The quick ", " brown", "The quick brown"),
    "white space that was not": ("The quick ", "brown", "The quick brown"),
    "words and the white space after": ("The quick\n\n", "The quick\n\nbrown", "The quick\n\nbrown"),
    "words without it": ("The quick\n", "The quick brown", "The quick\n brown"),
    "fewer than can be told": ("banana", "anas", "bananaanas"),
    "a line of dashes": ("| ---------", "--------- |", "| ------------------ |"),
    "too far back": (
        "The quick brown fox jumps",
        "The quick brown cat",
        "The quick brown fox jumpsThe quick brown cat",
    ),
    "more than can be told": ("x" * 90 + "abcdefgh" * 9, "abcdefgh" * 8 + "!", "x" * 90 + "abcdefgh" * 9 + "!"),
    "nothing": ("The quick brown fox", "", "The quick brown fox"),
    "only what was there": ("The quick brown fox", "brown fox", "The quick brown fox"),
}


@pytest.mark.parametrize(("before", "after", "joined"), JOINED.values(), ids=JOINED)
def test_a_follow_up_is_joined(before: str, after: str, joined: str):
    trail = Trail()
    shown = trail.feed(before)
    trail.resume()

    shown += trail.feed(after) + trail.flush()

    assert shown == trail.text == joined
    assert trail.has_grown == (joined != before)


@given(
    st.text("ab -\n", min_size=1, max_size=90),
    st.text("ab -\n", max_size=90),
    st.lists(st.integers(0, 180), max_size=8),
)
def test_a_follow_up_is_joined_alike_however_it_comes(before: str, after: str, cuts: list[int]):
    def joined(text: str, places: list[int]) -> str:
        trail = Trail()
        trail.feed(before)
        trail.resume()
        bounds = [0, *sorted(places), len(text)]
        shown = "".join(trail.feed(text[a:b]) for a, b in itertools.pairwise(bounds))
        return shown + trail.flush()

    for text in (after, before + after, before[-20:] + after):
        assert joined(text, cuts) == joined(text, [])


def test_nothing_is_held_of_a_first_answer():
    trail = Trail()

    assert (trail.feed("The "), trail.feed("The "), trail.flush()) == ("The ", "The ", "")


BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
}


@pytest.mark.parametrize(
    ("prefill", "turn", "keys"),
    [
        ("prefix", {"prefix": True}, {}),
        ("continue", {}, {"continue_final_message": True, "add_generation_prompt": False}),
    ],
)
def test_an_upstream_that_takes_a_beginning_gets_the_text_as_that(prefill: Any, turn: Any, keys: Any):
    body = follow_up(BODY, text="Good morning ", limit=60, profile=Profile(prefill=prefill))

    last = {"role": "assistant", "content": "Good morning", **turn}
    assert body == {**BODY, **keys, "max_tokens": 60, "messages": [*BODY["messages"], last]}


@pytest.mark.parametrize("prefill", ["plain", "reject"])
def test_any_other_is_asked_in_words(prefill: Any):
    text = "abc " * TAIL
    body = follow_up(BODY, text=text, limit=None, profile=Profile(prefill=prefill))

    *before, said, ask = body["messages"]
    assert before == BODY["messages"]
    assert said == {"role": "assistant", "content": text}
    assert ask == {"role": "user", "content": ASK.format(tail=text[-TAIL:])}
    assert body["max_tokens"] == 100


def test_a_beginning_that_the_client_gave_stays_the_beginning():
    begun = {**BODY, "messages": [*BODY["messages"], {"role": "assistant", "content": "Good", "prefix": True}]}
    body = follow_up(begun, text=" day", limit=500, profile=Profile(prefill="prefix"))

    assert body["messages"][-1] == {"role": "assistant", "content": "Good day", "prefix": True}
    assert (len(body["messages"]), body["max_tokens"]) == (3, 100)


def test_a_limit_keeps_the_key_that_it_had():
    newer = {key: value for key, value in BODY.items() if key != "max_tokens"}

    assert follow_up(newer, text="a", limit=9, profile=Profile()).keys() == newer.keys()
    assert (
        follow_up(newer | {"max_completion_tokens": 10}, text="a", limit=9, profile=Profile())["max_completion_tokens"]
        == 9
    )
