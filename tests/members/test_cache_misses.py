from datetime import timedelta
from typing import Any

import pytest

from members.agents import Part, Request
from members.cache_misses import SHOWN_MAX, dearest, find_misses
from tests.members.test_agents import START
from usage.models import Price

PRICE = Price(pk=1, upstream_model="m", input_price=1_000_000, cache_read_price=100_000, output_price=5_000_000)


def request(minute: float, size: int, read: int, **more: Any) -> Request:
    """Give a request of `size` tokens of input, `read` of them from the cache."""
    values: dict[str, Any] = {"alias": "big", "upstream_model": "m", "credential_id": 1, "price_version": 1} | more
    written = values.setdefault("cache_write_tokens", 0)
    moment = START + timedelta(minutes=minute)
    return Request(started_at=moment, input_tokens=size - read - written, cache_read_tokens=read, **values)


def misses(*requests: Request) -> list[tuple[float, int, str]]:
    found = find_misses([Part(name="main agent", alias="big", requests=list(requests))], {1: PRICE})
    return [((miss.at - START) / timedelta(minutes=1), miss.missed_tokens, miss.change) for miss in found]


def test_what_was_sent_before_and_is_not_read_from_the_cache_is_missed() -> None:
    requests = (request(0, 10_000, 0), request(1, 12_000, 10_000), request(2, 13_000, 0), request(3, 14_000, 13_000))

    assert misses(*requests) == [(2, 12_000, "")]


@pytest.mark.parametrize(
    ("more", "minute", "change"),
    [
        ({"credential_id": 2}, 2, "another upstream key was used"),
        ({"credential_id": 2, "upstream_model": "n"}, 2, "another model answered"),
        ({}, 8, "a pause longer than caches are kept"),
        ({}, 5, ""),
    ],
)
def test_what_changed_since_the_request_before_is_told(more: dict[str, Any], minute: float, change: str) -> None:
    warm = [request(0, 10_000, 9_000), request(0.5, 10_000, 9_000, upstream_model="n", alias="other")]

    found = misses(*warm, request(minute, 11_000, 0, **more))

    assert found == [(minute, 10_000, change)]


@pytest.mark.parametrize(
    "requests",
    [
        # No cache told of at all.
        (request(0, 10_000, 0), request(1, 12_000, 0)),
        # A little is always read anew.
        (request(0, 10_000, 5_000), request(1, 12_000, 8_000)),
        # Another conversation: it is much shorter, as after a compaction.
        (request(0, 100_000, 90_000), request(1, 12_000, 0)),
        # Beside the one before, not after it.
        (request(0, 10_000, 9_000, duration_ms=120_000), request(1, 12_000, 0)),
        # Too few tokens for a cache.
        (request(0, 1_500, 1_000), request(1, 1_600, 0)),
        # Not counted to the end by the upstream: its zeros say nothing.
        (request(0, 10_000, 9_000), request(1, 12_000, 0, is_counted=False)),
        (),
    ],
)
def test_what_is_no_miss(requests: tuple[Request, ...]) -> None:
    assert misses(*requests) == []


def test_a_miss_costs_the_difference_of_the_prices() -> None:
    part = Part(name="main agent", alias="big", requests=[request(0, 10_000, 9_000), request(1, 12_000, 0)])

    def extra(price: Price | None, *, written: int = 0) -> int | None:
        part.requests[1] = request(1, 12_000, 0, cache_write_tokens=written)
        (miss,) = find_misses([part], {1: price} if price else {})
        return miss.extra_nano

    assert extra(PRICE) == 10_000 * (1_000_000 - 100_000) // 1000
    assert extra(None) is None
    assert extra(Price(input_price=5, output_price=9)) == 0
    dear_writes = Price(input_price=1_000_000, cache_write_price=1_250_000, cache_read_price=0, output_price=1)
    assert extra(dear_writes, written=4_000) == (4_000 * 1_250_000 + 6_000 * 1_000_000) // 1000


def test_conversations_of_one_part_are_held_apart() -> None:
    """The main agent's side calls neither miss its cache nor hide that it was missed."""
    requests = [
        request(0, 40_000, 30_000),
        request(1, 500, 0),
        request(2, 41_000, 40_000),
        request(3, 600, 0),
        request(4, 42_000, 0),
    ]

    assert misses(*requests) == [(4, 41_000, "")]


def test_the_dearest_are_listed_in_order() -> None:
    count = SHOWN_MAX + 5
    requests = [request(0, 10_000, 9_000)] + [request(1 + n, 10_000 + 100 * n, 0) for n in range(count)]
    found = find_misses([Part(name="main agent", alias="big", requests=requests)], {1: PRICE})

    shown = dearest(found)

    assert len(found) == count
    assert shown == found[-SHOWN_MAX:]
