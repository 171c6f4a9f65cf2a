"""Summaries at rest: whose they are, how they lie there, when they go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from keys.ring import key_ring
from tests.usage.conftest import aside
from tests.usage.waiting import PATIENCE_S
from translator.core.compaction.summaries import Summary
from usage.connection import LedgerConnection
from usage.models import ConversationSummary
from usage.summaries import EXPIRE, SummaryStore, SummaryStoreAway, summary_place

Query = Callable[..., list[dict[str, Any]]]

TALK = "a" * 64


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[SummaryStore]:
    store = SummaryStore(dsn)
    yield store
    await store.close()


@pytest.fixture
def alice(dsn: str) -> User:
    return User.objects.create_user("alice")


@pytest.fixture
def charlie(dsn: str) -> User:
    return User.objects.create_user("charlie")


def a_summary(covered: int = 10, text: str = "It was the disk.") -> Summary:
    return Summary(covered=covered, fingerprint=f"{covered}", text=text, request_id=f"req_{covered}")


async def write(store: SummaryStore, user: User, *summaries: Summary) -> None:
    for summary in summaries:
        await store.write(user.pk, TALK, summary, written_by="writer")


async def test_another_worker_reads_what_one_has_written(store: SummaryStore, dsn: str, alice: User) -> None:
    await write(store, alice, a_summary(10), a_summary(20, "And the network."))

    other = SummaryStore(dsn)
    assert await other.read(alice.pk, TALK) == [a_summary(20, "And the network."), a_summary(10)]
    assert await other.read(alice.pk, "b" * 64) == []
    await other.close()


async def test_a_member_gets_nothing_of_another_ones(store: SummaryStore, alice: User, charlie: User) -> None:
    await write(store, alice, a_summary())

    assert await store.read(charlie.pk, TALK) == []
    assert await store.receipt(charlie.pk, "req_10") is None


async def test_a_receipt_is_for_the_member(store: SummaryStore, alice: User) -> None:
    await write(store, alice, a_summary())

    receipt = await store.receipt(alice.pk, "req_10")
    assert receipt is not None
    assert (receipt.summary, receipt.written_by) == (a_summary(), "writer")
    assert await store.receipt(alice.pk, "req_11") is None


async def test_no_row_holds_the_text(store: SummaryStore, alice: User, query: Query) -> None:
    await write(store, alice, a_summary())

    [row] = query("SELECT * FROM usage_conversationsummary")
    assert "disk" not in str(row)
    assert key_ring().unseal(row["sealed_text"], summary_place(row["id"])) == "It was the disk."


async def test_what_the_ring_does_not_open_there_is_none(store: SummaryStore, alice: User, query: Query) -> None:
    await write(store, alice, a_summary())
    query("UPDATE usage_conversationsummary SET id = id + 1")

    assert await store.read(alice.pk, TALK) == []
    assert await store.receipt(alice.pk, "req_10") is None


async def test_the_newest_few_of_a_conversation_are_kept_and_each_once(store: SummaryStore, alice: User) -> None:
    await write(store, alice, *(a_summary(covered) for covered in range(10, 80, 10)), a_summary(70))

    assert [summary.covered for summary in await store.read(alice.pk, TALK)] == [70, 60, 50, 40]


async def test_a_week_after_its_last_use_a_summary_is_gone(
    store: SummaryStore, alice: User, query: Query, dsn: str
) -> None:
    await write(store, alice, a_summary(10), a_summary(20))
    query("UPDATE usage_conversationsummary SET used_at = now() - interval '8 days' WHERE covered = 10")
    query("UPDATE usage_conversationsummary SET used_at = now() - interval '6 days' WHERE covered = 20")
    assert [summary.covered for summary in await store.read(alice.pk, TALK)] == [20]

    connection = LedgerConnection(dsn)
    await connection.run([(EXPIRE, [])])
    await connection.close()

    [row] = query("SELECT covered, used_at > now() - interval '1 minute' AS is_used FROM usage_conversationsummary")
    assert row == {"covered": 20, "is_used": True}


async def test_one_worker_at_a_time_has_the_right_to_write(store: SummaryStore, dsn: str) -> None:
    other = SummaryStore(dsn)
    assert [await store.claim(TALK), await other.claim(TALK), await other.claim("b" * 64)] == [True, False, True]

    await store.release(TALK)
    assert [await other.claim(TALK), await store.claim(TALK)] == [True, False]

    await other.close()
    until = asyncio.get_running_loop().time() + PATIENCE_S
    while not await store.claim(TALK):
        assert asyncio.get_running_loop().time() < until, "a worker that is gone keeps its claim"
        await asyncio.sleep(0.02)


async def test_retention_and_the_members_leaving_end_a_summary(
    store: SummaryStore, alice: User, charlie: User, query: Query
) -> None:
    await write(store, alice, a_summary())
    await store.write(charlie.pk, "b" * 64, a_summary(), written_by="writer")
    query("UPDATE usage_conversationsummary SET made_at = now() - interval '2 days' WHERE user_id = %s", alice.pk)

    await aside(call_command, "apply_retention", "1")
    assert await aside(ConversationSummary.objects.values_list("user_id", flat=True).get) == charlie.pk

    await aside(charlie.delete)
    assert not await aside(ConversationSummary.objects.exists)


async def test_without_postgres_nothing_is_read_and_nothing_hangs(alice: User) -> None:
    store = SummaryStore("host=127.0.0.1 port=1 dbname=none")

    with pytest.raises(SummaryStoreAway):
        await store.read(alice.pk, TALK)
    with pytest.raises(SummaryStoreAway):
        await write(store, alice, a_summary())
    with pytest.raises(SummaryStoreAway):
        await store.receipt(alice.pk, "req_10")
    with pytest.raises(SummaryStoreAway):
        await store.claim(TALK)
    await store.close()
