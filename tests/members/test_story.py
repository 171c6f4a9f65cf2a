from datetime import timedelta

import pytest

from members.agents import Part
from members.cache_misses import Miss
from members.story import TURNS_MAX, tell, turns_of
from tests.members.test_agents import START
from tests.members.test_cache_misses import request


def miss(extra_nano: int | None, minute: float = 0) -> Miss:
    moment = START + timedelta(minutes=minute)
    pause = timedelta(minutes=1)
    return Miss(at=moment, part="main agent", missed_tokens=7, extra_nano=extra_nano, pause=pause, change="")


def test_a_session_is_held_against_the_median_of_the_others() -> None:
    story = tell(800, [100, 200, 900], [])

    assert (story.place, story.count, story.times_median, story.is_dear) == (2, 4, 4.0, True)
    assert not tell(250, [100, 200, 900], []).is_dear


@pytest.mark.parametrize("others", [[], [1, 2], [0, 0, 0]])
def test_without_others_there_is_no_usual_cost(others: list[int]) -> None:
    story = tell(800, others, [miss(800)])

    assert (story.times_median, story.is_dear, story.is_explained) == (None, False, False)


@pytest.mark.parametrize(("extra", "is_explained"), [(300, True), (299, False), (None, False)])
def test_misses_explain_what_they_are_most_of(extra: int | None, is_explained: bool) -> None:
    story = tell(800, [200, 200, 200], [miss(extra)])

    assert story.is_explained is is_explained
    assert story.missed_from == START


def test_turns_are_drawn_to_the_longest_of_them() -> None:
    part = Part(name="main agent", alias="big", requests=[request(0, 100, 25), request(1, 200, 0)])

    first, second = turns_of(part, [miss(1, minute=1)])

    assert (first.cached_height, first.fresh_height, first.fresh_top, first.is_missed) == (12.5, 37.5, 50, False)
    assert (second.cached_height, second.fresh_height, second.fresh_top, second.is_missed) == (0, 100, 0, True)


def test_the_latest_turns_are_drawn() -> None:
    part = Part(name="main agent", alias="big", requests=[request(n, 100, 0) for n in range(TURNS_MAX + 9)])

    shown = turns_of(part, [])

    assert (len(shown), shown[0].at, shown[0].left) == (TURNS_MAX, START + timedelta(minutes=9), 0)
