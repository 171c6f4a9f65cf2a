from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from members.agents import AGENTS_MAX, Request, names_agents, parts_of

START = datetime(2026, 3, 1, tzinfo=UTC)
NAMED = {"client_name": "claude-cli", "client_version": "2.1.332"}


def request(second: int, size: int, *, alias: str = "big", duration_s: int = 1, **more: Any) -> Request:
    moment = START + timedelta(seconds=second)
    return Request(started_at=moment, duration_ms=duration_s * 1000, alias=alias, input_tokens=size, **more)


def parts(requests: list[Request]) -> list[tuple[str, str, list[int]]]:
    told = parts_of(requests)
    assert not told.is_clients_word
    return [(each.name, each.alias, [one.all_input_tokens for one in each.requests]) for each in told.parts]


def said(requests: list[Request]) -> list[tuple[str, str, list[int]]]:
    told = parts_of(requests)
    assert told.is_clients_word
    return [(each.name, each.alias, [one.all_input_tokens for one in each.requests]) for each in told.parts]


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
    assert parts([]) == []


def test_many_conversations_are_gathered() -> None:
    requests = [request(0, 10_000), request(1, 11_000)]
    for number in range(AGENTS_MAX + 3):
        start, size = 10 + 10 * number, int(9000 * 0.8**number)
        requests += [request(start, size), request(start + 2, size + 1)]

    found = [each.name for each in parts_of(requests).parts]

    assert found.count("sub-agent") == AGENTS_MAX
    assert found.count("smaller conversations") == 1


def test_requests_that_failed_before_they_were_counted_are_left_out() -> None:
    assert parts([request(0, 100), request(2, 0), request(4, 120)]) == [("main agent", "big", [100, 120])]


def test_the_clients_word_goes_before_any_guess() -> None:
    """A sub-agent's input may be as long as the main agent's, and may go on where that stands."""
    requests = [
        request(0, 1000),
        request(2, 1000, agent_id="a1"),
        request(4, 1100, agent_id="a2"),
        request(6, 1100),
        request(8, 1200, agent_id="a1"),
        request(9, 300, alias="small"),
    ]

    assert said(requests) == [
        ("main agent", "big", [1000, 1100]),
        ("main agent", "small", [300]),
        ("sub-agent", "big", [1000, 1200]),
        ("sub-agent", "big", [1100]),
    ]


def test_kinds_are_called_what_the_client_calls_them() -> None:
    requests = [
        request(0, 900, agent_kind="main"),
        request(1, 50, agent_kind="auxiliary"),
        request(2, 600, agent_id="a", agent_kind="Explore"),
        request(3, 500, agent_id="b", agent_kind="subagent"),
        request(4, 800, agent_kind="compaction"),
        request(5, 10, agent_kind="something-new"),
    ]

    assert [name for name, _, _ in said(requests)] == [
        "main agent",
        "compaction of the history",
        "side calls: titles, names, summaries",
        "something-new",
        "sub-agent Explore",
        "sub-agent",
    ]


def test_many_named_sub_agents_are_gathered() -> None:
    requests = [request(0, 10_000)] + [request(n, 100 + n, agent_id=f"a{n}") for n in range(1, AGENTS_MAX + 4)]

    found = said(requests)

    assert [name for name, _, _ in found].count("sub-agent") == AGENTS_MAX
    assert found[-1] == ("other sub-agents", "big", [101, 102, 103])


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (NAMED, True),
        (NAMED | {"client_version": "2.1.197"}, True),
        (NAMED | {"client_version": "3.0.0"}, True),
        (NAMED | {"client_version": "2.1.196"}, False),
        (NAMED | {"client_version": "2.0.77"}, False),
        (NAMED | {"client_version": "x"}, False),
        (NAMED | {"client_version": "9" * 30}, False),
        (NAMED | {"client_name": "opencode"}, False),
        (NAMED | {"is_noted": False}, False),
        ({"agent_id": "a1"}, True),
        ({"agent_kind": "main"}, True),
    ],
)
def test_silence_is_the_main_agent_only_where_the_client_would_speak(more: dict[str, Any], names: bool) -> None:
    assert names_agents([request(0, 100, **more), request(5, 200, **more)]) is names


def test_one_old_request_makes_silence_a_guess() -> None:
    assert not names_agents([request(0, 100, **NAMED), request(5, 200)])
    assert not names_agents([])
