"""What compaction is made of: clipping, digests, the request for a summary, the factor that is held still."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.translator.core.asking import PNG, asked, assistant, call, result, system, text, user
from translator.core.calibration import PLACES_MAX
from translator.core.compaction.clipping import clip_results, clipped, clipped_to_tokens
from translator.core.compaction.fingerprints import prefix_fingerprints
from translator.core.compaction.rules import Limits, Rules
from translator.core.compaction.steady import STEP, SteadyFactors
from translator.core.compaction.summaries import Summary, Wanted, summary_request, summary_text
from translator.core.estimate import estimate_input_tokens, text_tokens

RULES = Rules(mode="summary", window=100_000, above_percent=80, to_percent=40)
LIMITS = RULES.limits(1.0)
SMALL = Rules(mode="summary", window=2_000, above_percent=80, to_percent=40).limits(1.0)


def test_a_text_keeps_its_beginning_and_its_end() -> None:
    short = clipped("a" * 500 + "b" * 500, 380)

    assert short == "a" * 200 + "\n[the gateway left out 700 characters here]\n" + "b" * 100
    assert clipped("short", 5) == "short"
    assert clipped("a" * 100, 20) == "a" * 20


@given(st.text(max_size=2_000), st.integers(0, 400))
def test_a_clipped_text_is_never_larger_than_asked_for(words: str, tokens: int) -> None:
    short = clipped_to_tokens(words, tokens)

    assert text_tokens(short) <= tokens
    assert short == words or text_tokens(words) > tokens


def test_a_text_that_is_dense_at_its_ends_is_clipped_further() -> None:
    words = "😀" * 300 + "a" * 3_000 + "😀" * 300

    assert text_tokens(clipped_to_tokens(words, 300)) <= 300


def test_results_alone_are_clipped_and_messages_that_fit_are_the_same() -> None:
    long = "x y z " * 500
    messages = [user(long), assistant(long), user(result("a", long), text(long)), user(result("b", None)), system(None)]
    made, count = clip_results(messages, 100)

    assert count == 1
    assert [one is two for one, two in zip(made, messages, strict=True)] == [True, True, False, True, True]
    assert made[2]["content"][1] == text(long)


def test_digests_of_prefixes_are_those_of_each_alone() -> None:
    messages = [user("a"), assistant("b"), user(result("t", [text("c")]))]
    found = prefix_fingerprints(messages, [0, 2, 3, 4, -1])

    assert list(found) == [0, 2, 3]
    assert found[2] == prefix_fingerprints(messages[:2], [2])[2]
    assert len(set(found.values())) == 3
    assert prefix_fingerprints(messages, []) == {}


@pytest.mark.parametrize("same", [user(text("a")), user({"type": "text", "text": "a", "cache_control": {"x": 1}})])
def test_form_and_cache_marks_do_not_count(same: dict[str, Any]) -> None:
    assert prefix_fingerprints([same], [1]) == prefix_fingerprints([user("a")], [1])


def wanted(covered: int, base: Summary | None = None) -> Wanted:
    return Wanted(covered=covered, fingerprint="f", base=base)


MESSAGES = [
    user(text("Find the fault."), PNG),
    assistant({"type": "thinking", "thinking": "secret"}, text("I look."), call("t", tool_input={"path": "a"})),
    user(result("t", [text("line"), PNG]), result("u", "plain")),
    system(None),
    assistant("Found it."),
    user("Mend it."),
]


def test_the_first_summary_is_asked_for_with_all_that_it_covers() -> None:
    made = summary_request(asked(*MESSAGES), wanted(5), limits=LIMITS, model="writer")

    assert (made.model, made.stream, made.max_tokens) == ("writer", False, LIMITS.summary + 2_000)
    assert made.messages == [
        user(
            "<messages>\nuser: Find the fault.\n[image]\n\n"
            'assistant: I look.\n[calls Read {"path":"a"}]\n\n'
            "user: [result] line\n[image]\n[result] plain\n\nsystem: \n\nassistant: Found it.\n"
            "</messages>\n\nWrite the summary."
        )
    ]
    assert "at most 800 words" in made.system[0]


def test_the_next_one_is_asked_for_with_the_last_and_what_came_since() -> None:
    base = Summary(covered=4, fingerprint="e", text="It was the disk.")
    made = summary_request(asked(*MESSAGES), wanted(5, base), limits=LIMITS, model="writer")

    assert made.messages == [
        user(
            "<summary>\nIt was the disk.\n</summary>\n\n"
            "<messages>\nassistant: Found it.\n</messages>\n\nWrite the summary."
        )
    ]


def test_long_messages_are_shortened_before_any_is_left_out() -> None:
    messages = [user("The wish."), *[assistant("x y z " * 300), user("go on")] * 4]
    told = summary_request(asked(*messages), wanted(9), limits=SMALL, model="m").messages[0]["content"]

    assert told.startswith("<messages>\nuser: The wish.\n\nassistant: x y z")
    assert told.count("characters here]") == 4


def test_of_too_many_messages_the_newest_are_told() -> None:
    messages = [user("The wish."), *[assistant(text(f"{n} " + "x y z " * 300)) for n in range(40)]]
    made = summary_request(asked(*messages), wanted(41), limits=SMALL, model="m")
    told = made.messages[0]["content"]

    assert told.startswith("<messages>\n[earlier messages are left out]\n\nassistant: ")
    assert "assistant: 39 " in told
    assert estimate_input_tokens(made) < 2_000


def test_an_answer_is_kept_without_tags_and_within_its_room() -> None:
    assert summary_text(" <summary>\nIt was the disk.</summary>\n", LIMITS) == "It was the disk."
    assert summary_text("  ", LIMITS) == ""
    assert text_tokens(summary_text("word " * 20_000, LIMITS)) <= LIMITS.summary


def test_limits_follow_the_models_own_count() -> None:
    assert RULES.limits(2.0) == Limits(window=50_000, above=40_000, hurry=45_000, to=20_000)
    assert (RULES.is_over(80_000, 1.0), RULES.is_over(80_001, 1.0), RULES.is_over(40_001, 2.0)) == (False, True, True)
    assert (LIMITS.summary, SMALL.summary, LIMITS.clip) == (2_000, 200, 10_000)


def test_a_factor_is_held_until_it_has_left_its_step_for_good() -> None:
    steady, place = SteadyFactors(), (1, "m")

    assert steady.at(place, 1.0) == 1.0
    assert [steady.at(place, factor) for factor in (0.99, 0.9, 0.85, 1.0)] == [1.0] * 4
    assert steady.at(place, 1.01) == pytest.approx(STEP)
    assert steady.at(place, 0.95) == pytest.approx(STEP)
    assert steady.at(place, 0.8) == pytest.approx(STEP**-2)
    assert steady.at((2, "m"), 0.95) == 1.0


def test_places_that_are_forgotten_start_anew() -> None:
    steady = SteadyFactors()
    steady.at((0, "m"), 1.01)
    for number in range(PLACES_MAX):
        steady.at((1, f"made up {number}"), 1.0)

    assert steady.at((0, "m"), 0.99) == 1.0
