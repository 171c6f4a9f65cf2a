"""The estimate learns from what upstreams count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translator.core.calibration import PLACES_MAX, Calibration, Measured

PLACE = (1, "up-x")


def learnt(*pairs: tuple[int, int]) -> Calibration:
    """What `(estimate, actual)` pairs teach."""
    calibration = Calibration()
    for estimate, actual in pairs:
        calibration.learn(PLACE, estimate=estimate, actual=actual)
    return calibration


FACTORS = {
    "nothing known": ([], 1.0),
    "two answers are chance": ([(1000, 1300)] * 2, 1.0),
    "three are not": ([(1000, 1300)] * 3, 1.3),
    "lower": ([(1000, 800)] * 3, 0.8),
    "clamped above": ([(1000, 3000)] * 5, 2.0),
    "clamped below": ([(1000, 300)] * 5, 0.5),
    "short requests tell nothing": ([(99, 300)] * 5, 1.0),
    "a count of nothing tells nothing": ([(1000, 0)] * 5, 1.0),
}


@pytest.mark.parametrize("case", FACTORS)
def test_the_factor_is_what_upstreams_counted_to_our_estimate(case):
    pairs, expected = FACTORS[case]

    assert learnt(*pairs).factor(PLACE) == pytest.approx(expected)


def test_another_model_is_not_touched():
    assert learnt(*[(1000, 1500)] * 3).factor((1, "up-y")) == 1.0


def test_where_answers_differ_the_factor_is_high():
    factor = learnt(*[(1000, 1000), (1000, 1200)] * 20).factor(PLACE)

    assert 1.1 < factor < 1.2


def test_newer_answers_count_more():
    factor = learnt(*[(1000, 1000)] * 200, *[(1000, 1400)] * 60).factor(PLACE)

    assert 1.35 < factor < 1.45


def test_one_absurd_count_moves_little():
    factor = learnt(*[(1000, 1000)] * 50, (1000, 10**9)).factor(PLACE)

    assert factor < 1.35


def test_what_was_known_is_recalled_unless_more_was_learnt():
    calibration = learnt(*[(1000, 1300)] * 3)

    calibration.recall({PLACE: Measured(ratio=0.7, samples=9), (2, "up-y"): Measured(ratio=0.7, samples=9)})

    assert calibration.factor(PLACE) == pytest.approx(1.3)
    assert calibration.factor((2, "up-y")) == pytest.approx(0.7)


def test_each_change_is_kept_once():
    calibration = learnt((1000, 1300), (1000, 1300))

    assert [(place, known.samples) for place, known in calibration.take_changed()] == [(PLACE, 2)]
    assert list(calibration.take_changed()) == []


def test_names_that_clients_make_up_are_forgotten():
    calibration = Calibration()
    for number in range(PLACES_MAX + 5):
        for _ in range(3):
            calibration.learn((1, str(number)), estimate=1000, actual=1500)

    assert calibration.factor((1, "4")) == 1.0
    assert calibration.factor((1, "5")) == 1.5
    assert len(list(calibration.take_changed())) == PLACES_MAX


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(-5, 10**7))))
def test_the_factor_stays_within_its_bounds(pairs):
    assert 0.5 <= learnt(*pairs).factor(PLACE) <= 2.0
