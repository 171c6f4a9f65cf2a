import pytest

from usage.templatetags.figures import DASH, compact, figure, signed, usd


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "count", DASH),
        (1234567, "count", "1,234,567"),
        (505_995_381, "tokens", "506.0M"),
        (0.7661, "share", "76.6 %"),
        (250, "ms", "250 ms"),
        (2500, "ms", "2.50 s"),
        (0, "usd", "$0.00"),
        (1_500_000_000, "usd", "$1.50"),
        (12_345_678, "usd", "$0.0123"),
        (3_000, "usd", "$0.000003"),
    ],
)
def test_a_figure_is_written_for_people(value: float | None, unit: str, text: str) -> None:
    assert figure(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9_999, "9,999"),
        (10_000, "10.0k"),
        (999_900, "999.9k"),
        (1_000_000, "1.0M"),
        (2_500_000_000, "2.5G"),
        (None, DASH),
    ],
)
def test_large_numbers_are_short(value: float | None, text: str) -> None:
    assert compact(value) == text


def test_what_is_unknown_is_no_zero() -> None:
    assert usd(None) == "unknown"
    assert signed(None) == DASH
    assert signed(5) == "+5 %"
