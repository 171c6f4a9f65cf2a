"""What an answer cost, by the upstream's count or ours."""

import pytest

from tests.translator.core.upstreams import DONE, answer, chunk, decode, decoder, finish, message, sse, tool, usage
from translator.core.events import Usage, UsageSource
from translator.core.openai_chat.usage import estimate_output

#: usage object, then: input, cache read, cache write, output, thinking, source
REPORTS = {
    "plain": ({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}, (20, 0, 0, 5, None, "upstream")),
    "cached": ({"prompt_tokens": 120, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 100}}, (20, 100, 0, 5, None, "upstream")),
    "cached and written": (
        {"prompt_tokens": 120, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 30}},
        (40, 50, 30, 5, None, "upstream"),
    ),
    "cached and written, as litellm says it": (
        {"prompt_tokens": 120, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 50, "cache_creation_tokens": 30}},
        (40, 50, 30, 5, None, "upstream"),
    ),
    "details null": ({"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": None}, (20, 0, 0, 5, None, "upstream")),
    "details without a number": ({"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}}, (20, 0, 0, 5, None, "upstream")),
    "deepseek": ({"prompt_tokens": 120, "completion_tokens": 5, "prompt_cache_hit_tokens": 100, "prompt_cache_miss_tokens": 20}, (20, 100, 0, 5, None, "upstream")),
    "kimi": ({"prompt_tokens": 300, "completion_tokens": 5, "cached_tokens": 256}, (44, 256, 0, 5, None, "upstream")),
    "cached more than the rest": ({"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 30}, (20, 30, 0, 5, None, "upstream")),
    "cached more than all": ({"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 30, "total_tokens": 25}, (0, 20, 0, 5, None, "partial")),
    "a few cached beside the rest": ({"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 8, "total_tokens": 33}, (20, 8, 0, 5, None, "upstream")),
    "cached beside the rest": ({"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 30, "total_tokens": 55}, (20, 30, 0, 5, None, "upstream")),
    "responses' names": ({"input_tokens": 20, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 8}}, (12, 8, 0, 5, None, "upstream")),
    "thinking within the output": (
        {"prompt_tokens": 20, "completion_tokens": 50, "total_tokens": 70, "completion_tokens_details": {"reasoning_tokens": 40}},
        (20, 0, 0, 50, 40, "upstream"),
    ),
    "thinking beside the output": (
        {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 70, "completion_tokens_details": {"reasoning_tokens": 40}},
        (20, 0, 0, 50, 40, "upstream"),
    ),
    "output that the total exceeds": ({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 70}, (20, 0, 0, 50, None, "upstream")),
    "a total that is too small": ({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 7}, (20, 0, 0, 10, None, "upstream")),
    "zeros": ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, (100, 0, 0, 2, None, "partial")),
    "output by the total": ({"prompt_tokens": 20, "total_tokens": 25}, (20, 0, 0, 5, None, "upstream")),
    "a total of the input only": ({"prompt_tokens": 20, "total_tokens": 20}, (20, 0, 0, 2, None, "partial")),
    "input only": ({"prompt_tokens": 20}, (20, 0, 0, 2, None, "partial")),
    "output only": ({"completion_tokens": 5}, (100, 0, 0, 5, None, "partial")),
    "output and cache only": ({"completion_tokens": 5, "cached_tokens": 60}, (40, 60, 0, 5, None, "partial")),
    "floats and strings": ({"prompt_tokens": 20.0, "completion_tokens": "5"}, (20, 0, 0, 5, None, "upstream")),
    "nothing in it": ({"cost": 0.1}, (100, 0, 0, 2, None, "partial")),
}  # fmt: skip

ABSURD = [-1, 10**9, "x", float("inf"), True, [], {}, 1e300]


def counts(got: Usage):
    return (
        got.input_tokens,
        got.cache_read_tokens,
        got.cache_write_tokens,
        got.output_tokens,
        got.thinking_tokens,
        got.source.value,
    )


def last_usage(events) -> Usage:
    return events[-2].usage


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report(kind):
    report, expected = REPORTS[kind]

    assert counts(last_usage(decoder().feed_whole(message("Hello", counts=report)))) == expected
    assert counts(last_usage(decode(sse(chunk(content="Hello"), finish(), {"choices": [], "usage": report}, DONE)))) == expected  # fmt: skip


@pytest.mark.parametrize(
    "split",
    [
        {
            "prompt_tokens_details": {
                "cache_write_tokens": 30,
                "cache_creation_token_details": {"ephemeral_1h_input_tokens": 20},
            }
        },
        {"cache_creation_input_tokens": 30, "claude_cache_creation_1_h_tokens": 20},
        {
            "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        },
    ],
)
def test_what_is_written_for_an_hour_is_told_apart(split):
    report = {"prompt_tokens": 120, "completion_tokens": 5, "total_tokens": 125} | split
    got = last_usage(decode(sse(chunk(content="Hello"), finish(), {"choices": [], "usage": report}, DONE)))

    assert (got.input_tokens, got.cache_write_tokens, got.cache_write_1h_tokens) == (90, 30, 20)


@pytest.mark.parametrize("value", ABSURD)
def test_what_can_be_no_count_is_replaced_by_ours_and_noted(value):
    events = decode(sse(chunk(content="Hello"), finish(), usage(value, 5, cached_tokens=value)))
    assert counts(last_usage(events)) == (100, 0, 0, 5, None, "partial")
    assert last_usage(events).notes == ("usage_absurd",)

    events = decode(sse(chunk(content="Hello"), finish(), usage(20, value)))
    assert counts(last_usage(events)) == (20, 0, 0, 2, None, "partial")


def test_output_far_over_the_limit_is_absurd():
    make = lambda: decoder(answer(max_tokens=10))  # noqa: E731

    assert last_usage(decode(sse(chunk(content="Hello"), finish(), usage(20, 100)), make)).output_tokens == 100
    got = last_usage(decode(sse(chunk(content="Hello"), finish(), usage(20, 101, total_tokens=121)), make))
    assert (got.output_tokens, got.notes) == (2, ("usage_absurd",))


def test_no_output_may_be_right():
    got = last_usage(decode(sse(finish("length"), usage(20, 0))))

    assert counts(got) == (20, 0, 0, 0, None, "upstream")


def test_a_total_far_over_the_limit_is_absurd():
    make = lambda: decoder(answer(max_tokens=10))  # noqa: E731
    got = last_usage(decode(sse(chunk(content="Hello"), finish(), usage(20, 5, total_tokens=10**8)), make))

    assert (counts(got), got.notes) == ((20, 0, 0, 2, None, "partial"), ("usage_absurd",))


PLACES = {
    "after the finish": sse(chunk(content="Hello"), finish(), usage(), DONE),
    "after the done mark's place": sse(chunk(content="Hello"), finish(), usage()),
    "with the finish": sse(chunk(content="Hello"), finish() | {"usage": usage()["usage"]}, DONE),
    "before the text": sse(usage(), chunk(content="Hello"), finish(), DONE),
    "null, then real": sse(chunk(content="Hello") | {"usage": None}, finish() | {"usage": None}, usage(), DONE),
    "running totals": sse(
        chunk(content="He") | {"usage": {"prompt_tokens": 20, "completion_tokens": 1}},
        chunk(content="llo") | {"usage": {"prompt_tokens": 20, "completion_tokens": 5}},
        finish(),
    ),
    "zeros at the end": sse(usage(), chunk(content="Hello"), finish(), usage(0, 0), DONE),
    "real, then null": sse(usage(), chunk(content="Hello"), finish() | {"usage": None}, DONE),
    "groq": sse(chunk(content="Hello"), finish() | {"x_groq": {"usage": usage()["usage"]}}, DONE),
    "groq without it": sse(chunk(content="Hello") | {"x_groq": {"id": "x"}}, finish(), usage(), DONE),
    "kimi's, in the choice": sse(chunk(content="Hello"), finish(usage=usage()["usage"]), DONE),
    "of the wrong kind": sse(chunk(content="Hello") | {"usage": 7, "x_groq": 7}, finish(), usage(), DONE),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("step", [None, 1])
def test_usage_may_stand_anywhere(place, step):
    assert counts(last_usage(decode(PLACES[place], step=step))) == (20, 0, 0, 5, None, "upstream")


def test_counts_that_shrink_are_noted():
    got = last_usage(decode(sse(chunk(content="Hello"), usage(20, 9), finish(), usage(20, 5))))

    assert (got.output_tokens, got.notes) == (5, ("usage_decreased",))


def test_without_a_report_everything_is_estimated():
    calls = [tool('{"a":"0123456789"}', name="Read", index=0, id="x")]
    stream = sse(chunk(reasoning="01234567"), chunk(content="0123"), chunk(tool_calls=calls), finish(), DONE)

    assert counts(last_usage(decode(stream))) == (100, 0, 0, 8, None, "estimated")


@pytest.mark.parametrize(("characters", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (400, 100)])
def test_an_estimate_is_rounded_up(characters, tokens):
    assert estimate_output(characters) == tokens


def test_nothing_is_known_before_the_answer():
    assert decoder().usage == Usage(source=UsageSource.UNKNOWN)


def test_usage_is_partial_while_the_answer_runs():
    subject = decoder()
    subject.feed(sse(chunk(content="0123456789")))
    assert counts(subject.usage) == (100, 0, 0, 3, None, "estimated")
    subject.feed(sse(chunk(content="x") | {"usage": {"prompt_tokens": 20, "completion_tokens": 1}}))
    assert counts(subject.usage) == (20, 0, 0, 3, None, "partial")
    subject.feed(sse(finish()))
    assert subject.usage.source is UsageSource.PARTIAL
    subject.finish()

    assert counts(subject.usage) == (20, 0, 0, 1, None, "upstream")


def test_usage_of_a_cut_answer_is_what_had_come():
    subject = decoder()
    subject.feed(sse(chunk(content="0123456789")))
    subject.finish()

    assert counts(subject.usage) == (100, 0, 0, 3, None, "estimated")
