import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from usage.connection import LedgerConnection
from usage.idempotency import EXPIRE, Answered, Claimed, Idempotency, OtherBody, Running, is_valid_key
from usage.leases import Watch, beat_and_look

Query = Callable[..., list[dict[str, Any]]]


@pytest.fixture
async def keys(dsn: str) -> AsyncIterator[Idempotency]:
    connection = LedgerConnection(dsn)
    await beat_and_look(connection, "worker", Watch())
    await connection.close()
    keys = Idempotency(dsn, "worker")
    yield keys
    await keys.close()


async def test_of_ten_at_once_one_runs(keys: Idempotency) -> None:
    standings = await asyncio.gather(*(keys.claim(1, "k", body=b"x", request_id=f"r{n}") for n in range(10)))

    (claimed,) = [one for one in standings if isinstance(one, Claimed)]
    assert standings.count(Running(request_id=claimed.request_id)) == 9


async def test_a_repetition_learns_the_status(keys: Idempotency) -> None:
    claimed = await keys.claim(1, "k", body=b"x", request_id="first")
    assert isinstance(claimed, Claimed)
    await keys.finish(claimed, 200)

    assert await keys.claim(1, "k", body=b"x", request_id="r") == Answered(request_id="first", status=200, answer=None)


async def test_an_answer_that_was_handed_over_is_given_again(keys: Idempotency) -> None:
    claimed = await keys.claim(1, "k", body=b"x", request_id="first")
    assert isinstance(claimed, Claimed)
    await keys.finish(claimed, 400, b"{}")

    again = await keys.claim(1, "k", body=b"x", request_id="r")
    assert again == Answered(request_id="first", status=400, answer=b"{}")


async def test_another_body_is_told_apart(keys: Idempotency) -> None:
    await keys.claim(1, "k", body=b"x", request_id="first")

    assert await keys.claim(1, "k", body=b"y", request_id="r") == OtherBody(request_id="first")


async def test_keys_belong_to_a_token(keys: Idempotency) -> None:
    await keys.claim(1, "k", body=b"x", request_id="first")

    assert isinstance(await keys.claim(2, "k", body=b"x", request_id="r"), Claimed)


async def test_a_forgotten_key_is_free(keys: Idempotency) -> None:
    claimed = await keys.claim(1, "k", body=b"x", request_id="first")
    assert isinstance(claimed, Claimed)
    await keys.forget(claimed)

    assert isinstance(await keys.claim(1, "k", body=b"y", request_id="r"), Claimed)


async def test_a_dead_workers_key_is_free_and_its_late_word_counts_no_more(keys: Idempotency, query: Query) -> None:
    late = await keys.claim(1, "k", body=b"x", request_id="first")
    query("DELETE FROM usage_workerlease")
    assert isinstance(await keys.claim(1, "k", body=b"x", request_id="second"), Claimed)
    assert isinstance(late, Claimed)

    await keys.finish(late, 200)

    assert query("SELECT request_id, status FROM usage_idempotencykey") == [{"request_id": "second", "status": None}]


async def test_keys_expire_after_a_day(keys: Idempotency, query: Query, dsn: str) -> None:
    for key in ("k", "other"):
        claimed = await keys.claim(1, key, body=b"x", request_id="first")
        assert isinstance(claimed, Claimed)
        await keys.finish(claimed, 200)
    query("UPDATE usage_idempotencykey SET made_at = now() - interval '25 hours'")

    assert isinstance(await keys.claim(1, "k", body=b"y", request_id="r"), Claimed)
    connection = LedgerConnection(dsn)
    await connection.run([(EXPIRE, [])])
    await connection.close()
    assert query("SELECT key FROM usage_idempotencykey") == [{"key": "k"}]


@pytest.mark.parametrize(
    ("key", "valid"),
    [("a", True), ("x" * 255, True), ("", False), ("x" * 256, False), ("ä", False), ("a\x00", False), ("a\n", False)],
)
def test_keys_are_printable_ascii(key: str, valid: bool) -> None:
    assert is_valid_key(key) is valid
