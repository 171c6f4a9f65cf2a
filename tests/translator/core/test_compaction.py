"""Long histories: what is sent of them, turn after turn."""

import itertools
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translator.core.asking import PNG, READ, asked, assistant, call, result, system, text, user
from translator.core.anthropic.request import MessagesRequest
from translator.core.compaction.measured import measure
from translator.core.compaction.plan import Compacted, Plan, plan
from translator.core.compaction.rules import Rules
from translator.core.compaction.summaries import Summary
from translator.core.estimate import estimate_input_tokens
from translator.core.facts import ModelFacts
from translator.core.openai_chat.request import render_request
from translator.core.profiles import profile_named

WINDOW = 4_000
RULES = Rules(mode="trim", window=WINDOW, above_percent=80, to_percent=40)
SUMMING = Rules(mode="summary", window=WINDOW, above_percent=80, to_percent=40)
ABOVE, HURRY, TO = 3_200, 3_600, 1_600
#: About a hundred tokens.
LOG = "a line of a log\n" * 22


def loop(turns: int, *, words: str = LOG, first: str = "Find the fault.") -> list[dict[str, Any]]:
    messages = [user(first)]
    for turn in range(turns):
        messages += [assistant(text(f"Look {turn}."), call(f"t{turn}")), user(result(f"t{turn}", words))]
    return messages


def planned(messages: list[dict[str, Any]], rules: Rules = RULES, *known: Summary, factor: float = 1.0) -> Plan:
    return plan(asked(*messages), rules, factor=factor, summaries=known)


def compacted(messages: list[dict[str, Any]], rules: Rules = RULES, *known: Summary) -> Compacted:
    made = planned(messages, rules, *known).compacted
    assert made is not None
    return made


def fulfilled(plan: Plan, words: str = "It was the disk.") -> Summary:
    assert plan.wanted is not None
    return Summary(covered=plan.wanted.covered, fingerprint=plan.wanted.fingerprint, text=words)


def said(request: MessagesRequest) -> str:
    """The text that stands for what is left out."""
    head = next(message for message in request.messages if message["role"] == "user")
    return str(head["content"][-1]["text"])


def test_a_short_history_is_left_alone() -> None:
    assert planned(loop(20)) == Plan()
    assert planned(loop(20), SUMMING) == Plan()


def test_a_model_that_counts_more_is_full_earlier() -> None:
    assert planned(loop(20), factor=2.0).compacted is not None


def test_old_messages_are_left_out_and_the_newest_and_the_first_stay() -> None:
    messages = loop(40)
    made = compacted(messages)

    kept = made.request.messages
    assert kept[0] == user(text("Find the fault."), text(said(made.request)))
    assert said(made.request) == (
        "[This conversation no longer fits the model's window. The gateway left out messages 2 to"
        f" {made.left_out + 1}.]"
    )
    assert kept[1:] == messages[1 + made.left_out :]
    assert made.request.body["messages"] == kept
    assert made.after == estimate_input_tokens(made.request) <= ABOVE
    assert made.saved == estimate_input_tokens(asked(*messages)) - made.after
    assert (made.how, made.clipped) == ("trim", 0)


def test_system_prompt_and_tools_stay_and_count() -> None:
    made = plan(asked(*loop(40), system="Be brief. " * 100, tools=[READ]), RULES, factor=1.0).compacted

    assert made is not None
    assert (made.request.system, made.request.tools) == (("Be brief. " * 100,), [READ])
    assert made.left_out > compacted(loop(40)).left_out


def test_the_cut_goes_down_to_the_target_and_stays_there_for_many_turns() -> None:
    made = [compacted(loop(turns)) for turns in range(30, 130)]
    cuts = [one.left_out for one in made]

    assert cuts == sorted(cuts)
    assert len(set(cuts)) <= 8
    leaps = [after for before, after in pairwise(made) if after.left_out > before.left_out]
    assert leaps
    assert all(one.after <= TO for one in leaps)
    assert all(one.after <= ABOVE for one in made)


def test_a_cut_never_parts_a_call_from_its_result() -> None:
    late = [user("Go."), *loop(14)[1:], assistant(call("far")), user("No answer yet."), *loop(15)[1:]]
    late += [assistant("And now?"), user(result("far", "here")), *loop(30)[1:-2], assistant("Well."), user("Go on.")]
    measured = measure(asked(*late))

    asks = next(place for place, message in enumerate(late) if message == assistant(call("far")))
    answers = next(place for place, message in enumerate(late) if message == user(result("far", "here")))
    assert measured.places
    assert not [place for place in measured.places if asks < place <= answers]


def test_a_history_is_cut_only_before_an_assistants_answer() -> None:
    messages = [user("a"), user("b"), assistant("c"), assistant("d"), user("e"), system("f"), assistant("g"), user("h")]

    assert measure(asked(*messages)).places == [2, 6]


@pytest.mark.parametrize(
    "messages",
    [
        [assistant("No user has said anything.")],
        [user("Only one."), assistant("And a prefill")],
        [user("a"), system("b"), assistant("c"), user("d")],
    ],
)
def test_where_nothing_can_be_left_out_there_is_no_cut(messages: list[dict[str, Any]]) -> None:
    assert measure(asked(*messages)).places == []


def test_what_can_not_be_cut_stays_as_it_is() -> None:
    messages = [user("too much " * WINDOW), assistant("a"), user("b")]

    assert planned(messages) == Plan()
    alone = planned(messages, SUMMING)
    assert (alone.compacted, alone.wanted) == (None, None)


def test_a_first_message_that_is_too_large_keeps_the_last_turn_at_least() -> None:
    made = compacted([user("too much " * WINDOW), *loop(10)[1:]])

    assert made.request.messages[1:] == loop(10)[-2:]
    assert made.after > WINDOW


def test_system_messages_amid_what_is_left_out_stay_unless_they_were_cleared() -> None:
    messages = loop(40)
    messages[3:3] = [system("Mind the budget."), system("Only now.", clear_at="next_user_message")]
    made = compacted(messages)

    assert [message for message in made.request.messages if message["role"] == "system"] == [system("Mind the budget.")]
    assert [message["role"] for message in made.request.messages[:3]] == ["user", "system", "assistant"]


def test_messages_before_the_first_users_stay() -> None:
    made = compacted([system("Before all."), *loop(40)])

    assert made.request.messages[0] == system("Before all.")
    assert "left out messages 3 to" in said(made.request)


def test_a_large_result_is_clipped_and_that_is_enough() -> None:
    messages = loop(5)
    messages[4] = user(result("t1", "first\n" + LOG * 40 + "last"))
    messages[6] = user(result("t2", [text("first\n" + LOG * 40 + "last"), text("short"), PNG]))
    made = compacted(messages)

    assert (made.how, made.left_out, made.clipped) == ("clip", 0, 2)
    for content in (
        made.request.messages[4]["content"][0]["content"],
        made.request.messages[6]["content"][0]["content"][0]["text"],
    ):
        assert content.startswith("first\n")
        assert content.endswith("last")
        assert "characters here]" in content
    assert made.request.messages[6]["content"][0]["content"][1:] == [text("short"), PNG]
    assert made.request.messages[:4] == messages[:4]


def test_results_are_clipped_and_messages_left_out_where_one_is_not_enough() -> None:
    messages = loop(60)
    messages[-1] = user(result("t59", LOG * 40))

    made = compacted(messages)

    assert (made.how, made.clipped) == ("trim", 1)
    assert made.after <= ABOVE


def test_while_it_fits_the_history_goes_as_it_is_and_a_summary_is_wanted() -> None:
    early = planned(loop(27), SUMMING)

    assert ABOVE < estimate_input_tokens(asked(*loop(27))) < HURRY
    assert early.compacted is None
    assert early.wanted is not None
    assert (early.wanted.base, early.is_urgent) == (None, False)


def test_where_it_fits_only_clipped_it_goes_clipped() -> None:
    messages = loop(26)
    messages[2] = user(result("t0", LOG * 10))

    early = planned(messages, SUMMING)

    assert early.compacted is not None
    assert (early.compacted.how, early.is_urgent) == ("clip", False)
    assert early.wanted is not None


def test_without_a_summary_a_full_history_is_trimmed_and_one_is_urgent() -> None:
    late = planned(loop(40), SUMMING)

    assert late.compacted is not None
    assert (late.compacted.how, late.is_urgent) == ("trim", True)
    assert late.compacted.request == compacted(loop(40)).request


def test_a_summary_stands_for_what_it_covers() -> None:
    summary = fulfilled(planned(loop(40), SUMMING))
    made = compacted(loop(40), SUMMING, summary)

    assert (made.how, made.left_out) == ("summary", summary.covered - 1)
    assert said(made.request) == (
        "[This conversation no longer fits the model's window. The gateway left out messages 2 to"
        f" {summary.covered}; this summary stands for them, and what came after follows.]\n"
        "<summary>\nIt was the disk.\n</summary>"
    )
    assert made.request.messages[1:] == loop(40)[summary.covered :]
    assert made.after <= TO
    assert planned(loop(40), SUMMING, summary).wanted is None


def test_the_same_summary_serves_turn_after_turn_and_changes_nothing_of_what_was_sent() -> None:
    summary = fulfilled(planned(loop(40), SUMMING))
    sent = [compacted(loop(turns), SUMMING, summary).request.messages for turns in range(40, 50)]

    assert all(after[: len(before)] == before for before, after in itertools.pairwise(sent))


def test_a_grown_history_wants_the_next_summary_from_the_last() -> None:
    summary = fulfilled(planned(loop(40), SUMMING))
    turns = next(turns for turns in range(40, 90) if planned(loop(turns), SUMMING, summary).wanted)
    early = planned(loop(turns), SUMMING, summary)

    assert early.wanted is not None
    assert early.wanted.base is summary
    assert early.wanted.covered > summary.covered
    assert not early.is_urgent
    assert early.compacted is not None
    assert early.compacted.how == "summary"


def test_too_far_behind_a_summary_the_oldest_are_left_out_too() -> None:
    summary = fulfilled(planned(loop(40), SUMMING))
    late = planned(loop(75), SUMMING, summary)

    assert late.is_urgent
    assert late.compacted is not None
    assert late.compacted.how == "trim"
    assert "It was the disk." in said(late.compacted.request)
    assert f"left out messages {summary.covered + 1} to" in said(late.compacted.request)
    assert late.compacted.after <= ABOVE


def test_a_last_turn_that_is_too_large_keeps_its_summary() -> None:
    messages = loop(30)
    summary = fulfilled(planned(messages, SUMMING))
    at_last = Summary(covered=len(messages) - 2, fingerprint=summary.fingerprint, text=summary.text)
    large = [*messages[:-1], user(result("t29", "x"), text("too much " * WINDOW))]
    wanted = planned(large, SUMMING).wanted
    assert wanted is not None
    assert wanted.covered == at_last.covered

    late = planned(large, SUMMING, fulfilled(planned(large, SUMMING)))

    assert late.compacted is not None
    assert (late.compacted.how, late.wanted) == ("summary", None)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda messages: messages[3]["content"].pop(0), id="a block is gone"),
        pytest.param(lambda messages: messages.__setitem__(0, user("Another wish.")), id="another opening"),
        pytest.param(lambda messages: messages[2]["content"][0].update(is_error=True), id="a result failed"),
        pytest.param(lambda messages: messages[2]["content"][0].update(content="else"), id="another result"),
        pytest.param(lambda messages: messages.__delitem__(slice(1, 3)), id="a turn is gone"),
    ],
)
def test_a_summary_of_other_messages_is_never_used(change: Any) -> None:
    summary = fulfilled(planned(loop(40), SUMMING))
    messages = loop(40)
    change(messages)

    assert compacted(messages, SUMMING, summary).how == "trim"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda messages: messages.__setitem__(0, user(text("Find the fault."))), id="text as a block"),
        pytest.param(lambda m: m[2]["content"][0].update(cache_control={"type": "ephemeral"}), id="a cache mark"),
        pytest.param(lambda m: m[2]["content"][0].update(content=[text(LOG)]), id="a result as a block"),
    ],
)
def test_a_summary_is_used_where_only_the_form_has_changed(change: Any) -> None:
    summary = fulfilled(planned(loop(40), SUMMING))
    messages = loop(40)
    change(messages)

    assert compacted(messages, SUMMING, summary).how == "summary"


def test_of_several_summaries_the_one_that_covers_most_is_used() -> None:
    first = fulfilled(planned(loop(40), SUMMING))
    second = fulfilled(planned(loop(75), SUMMING, first), "Then the network.")

    assert "Then the network." in said(compacted(loop(75), SUMMING, first, second).request)
    assert "It was the disk." in said(compacted(loop(42), SUMMING, first, second).request)


def test_a_summary_that_ends_where_nothing_may_be_cut_is_not_used() -> None:
    summary = fulfilled(planned(loop(40), SUMMING))
    wrong = Summary(covered=summary.covered + 1, fingerprint=summary.fingerprint, text="x")
    far = Summary(covered=999, fingerprint=summary.fingerprint, text="x")

    assert compacted(loop(40), SUMMING, wrong, far).how == "trim"


WORDS = st.sampled_from(["ok", LOG, LOG * 3, "値" * 200, "1234567890 " * 40])
TURN = st.tuples(st.integers(0, 3), WORDS, st.booleans(), st.booleans())


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Legal histories with parallel calls, late results, system messages, prefills."""
    messages, number = [user(draw(WORDS))], 0
    for calls, words, is_late, speaks_system in draw(st.lists(TURN, min_size=1, max_size=40)):
        ids = [f"t{number + one}" for one in range(calls)]
        number += calls
        messages.append(
            assistant({"type": "thinking", "thinking": words, "signature": "s"}, text("I."), *map(call, ids))
        )
        if speaks_system:
            messages.append(system("Mind."))
        if is_late:
            messages.append(user("Wait."))
        messages.append(user(*(result(one, words) for one in ids), text(words)))
    return messages[: draw(st.integers(1, len(messages)))]


@settings(max_examples=80)
@given(messages=histories(), summing=st.booleans(), factor=st.sampled_from([0.8, 1.0, 1.7]), text_=WORDS)
def test_whatever_is_made_of_a_history_is_legal_and_within_the_target(
    messages: list[dict[str, Any]], summing: bool, factor: float, text_: str
) -> None:
    request, rules = asked(*messages), SUMMING if summing else RULES
    limits = rules.limits(factor)
    first = plan(request, rules, factor=factor)
    known = (fulfilled(first, text_[: limits.summary]),) if first.wanted else ()
    for made in (first, plan(request, rules, factor=factor, summaries=known)):
        if made.compacted is None:
            continue
        smaller = made.compacted.request
        assert_pairs_are_kept(request, smaller)
        assert smaller.messages[-1] == messages[-1] or made.compacted.clipped
        assert messages == asked(*messages).messages, "the client's own messages are never changed"
        cut = made.compacted.left_out
        if made.compacted.how != "clip":
            assert cut
            most = limits.hurry if made.compacted.how == "summary" else limits.above
            assert made.compacted.after <= most or not measure(smaller).places
        again = plan(smaller, rules, factor=factor)
        assert again.compacted is None or again.compacted.after <= made.compacted.after
        assert plan(request, rules, factor=factor, summaries=known if made is not first else ()) == made


def assert_pairs_are_kept(before: MessagesRequest, after: MessagesRequest) -> None:
    """Hold what an upstream gets to the rules, by what the translation had to mend."""
    profile, facts = profile_named("plain", {}), ModelFacts(name="m")
    whole = render_request(before, profile=profile, model=facts)
    made = render_request(after, profile=profile, model=facts)
    assert set(made.notes) <= set(whole.notes)
    roles = [message["role"] for message in made.body["messages"]]
    assert all(role != following or role == "tool" for role, following in itertools.pairwise(roles))
    ids = [one["id"] for message in made.body["messages"] for one in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in made.body["messages"] if message["role"] == "tool"]
    assert ids == answered
