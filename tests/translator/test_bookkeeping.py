"""Nothing that was counted is lost on the way into the ledger."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from translator.bookkeeping import settlement_of
from translator.core.events import Usage, UsageSource
from usage.ids import new_record_id
from usage.states import State


def test_each_count_of_an_answer_is_settled() -> None:
    counts = [field.name for field in fields(Usage) if field.name.endswith("_tokens")]
    usage = Usage(**{name: 1000 + place for place, name in enumerate(counts)}, source=UsageSource.UPSTREAM)  # type: ignore[arg-type]
    prepared: Any = SimpleNamespace(
        exchange=SimpleNamespace(usage=usage, stop_reason=None, notes=("read",)), notes=("said",)
    )
    caller: Any = SimpleNamespace(notes=("asked",))

    settlement = settlement_of(
        new_record_id(),
        State.OK,
        prepared,
        caller,
        max_tokens=None,
        http_status=200,
        error=None,
        queued_ms=0,
        ttft_ms=None,
        duration_ms=0,
    )

    assert {name: getattr(settlement, name) for name in counts} == {name: getattr(usage, name) for name in counts}
    assert settlement.notes == ("asked", "said", "read")
