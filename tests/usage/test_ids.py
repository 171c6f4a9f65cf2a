from datetime import UTC, datetime, timedelta

import time_machine

from usage.ids import first_id_at, new_record_id


def test_ids_are_version_7_and_rise() -> None:
    ids = [new_record_id() for _ in range(10_000)]

    assert ids == sorted(set(ids))
    assert {(identity.version, identity.variant) for identity in ids} == {(7, "specified in RFC 4122")}


def test_ids_rise_while_the_clock_is_set_back() -> None:
    before = new_record_id()
    with time_machine.travel(datetime.now(UTC) - timedelta(hours=1)):
        during = [new_record_id() for _ in range(100)]

    assert [before, *during] == sorted([before, *during])


def test_an_id_lies_between_the_bounds_of_its_time() -> None:
    begun = datetime.now(UTC) - timedelta(milliseconds=2)
    identity = new_record_id()

    assert first_id_at(begun) < identity < first_id_at(begun + timedelta(minutes=1))
