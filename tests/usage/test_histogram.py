from usage.histogram import BOUNDS_MS, BUCKETS, percentile_ms


def filled(**counts: int) -> list[int]:
    histogram = [0] * BUCKETS
    for bound, count in counts.items():
        histogram[BOUNDS_MS.index(int(bound[1:]))] = count
    return histogram


def test_nothing_has_no_percentile() -> None:
    assert percentile_ms([0] * BUCKETS, 0.5) is None
    assert percentile_ms([], 0.5) is None


def test_a_percentile_lies_in_its_bucket() -> None:
    histogram = filled(_100=50, _1000=50)

    assert 75 < (percentile_ms(histogram, 0.25) or 0) <= 100
    assert percentile_ms(histogram, 0.5) == 100
    assert 750 < (percentile_ms(histogram, 0.95) or 0) <= 1000


def test_times_beyond_the_last_bound_are_called_by_it() -> None:
    assert percentile_ms([0] * (BUCKETS - 1) + [3], 0.5) == BOUNDS_MS[-1]
