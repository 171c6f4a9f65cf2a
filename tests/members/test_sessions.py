from datetime import UTC, datetime, timedelta

from members.sessions import AGENTS_MAX, Request, threads

START = datetime(2026, 3, 1, tzinfo=UTC)


def request(second: int, size: int, *, alias: str = "big", duration_s: int = 1) -> Request:
    return Request(
        started_at=START + timedelta(seconds=second),
        duration_ms=duration_s * 1000,
        alias=alias,
        all_input_tokens=size,
        cache_read_tokens=0,
        output_tokens=1,
        cost_nano=size,
    )


def parts(requests: list[Request]) -> list[tuple[str, str, list[int]]]:
    return [(each.part, each.alias, [one.all_input_tokens for one in each.requests]) for each in threads(requests)]


def test_a_growing_input_is_one_conversation() -> None:
    assert parts([request(0, 100), request(5, 200), request(9, 300)]) == [("main agent", "big", [100, 200, 300])]


def test_a_sub_agent_begins_anew_beside_the_main_agent() -> None:
    requests = [request(0, 1000), request(5, 2000), request(10, 50), request(15, 90), request(20, 2100)]

    assert parts(requests) == [("main agent", "big", [1000, 2000, 2100]), ("sub-agent", "big", [50, 90])]


def test_what_runs_at_the_same_time_is_not_one_conversation() -> None:
    requests = [request(0, 1000, duration_s=60), request(5, 1000, duration_s=60), request(70, 1500), request(75, 1100)]

    assert [len(sizes) for _, _, sizes in parts(requests)] == [2, 2]


def test_another_model_is_another_part_and_single_calls_are_gathered() -> None:
    requests = [request(0, 500), request(2, 9, alias="small"), request(4, 600), request(6, 5, alias="small")]

    assert parts(requests) == [("main agent", "big", [500, 600]), ("single calls", "small", [9, 5])]


def test_nothing_has_no_parts() -> None:
    assert threads([]) == []


def test_many_conversations_are_gathered() -> None:
    requests = [request(0, 10_000), request(1, 11_000)]
    for number in range(AGENTS_MAX + 3):
        start, size = 10 + 10 * number, int(9000 * 0.8**number)
        requests += [request(start, size), request(start + 2, size + 1)]

    found = [each.part for each in threads(requests)]

    assert found.count("sub-agent") == AGENTS_MAX
    assert found.count("smaller conversations") == 1


def test_requests_that_failed_before_they_were_counted_are_left_out() -> None:
    assert parts([request(0, 100), request(2, 0), request(4, 120)]) == [("main agent", "big", [100, 120])]
