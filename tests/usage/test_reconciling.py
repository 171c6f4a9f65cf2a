from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tests.usage.conftest import a_record, aside
from tests.usage.test_records import an_end, settled
from usage.reconciling import ExportError, reconcile
from usage.records import OpenRecord, RecordWriter
from usage.states import Source, State

Query = Callable[..., list[dict[str, Any]]]


def truth_of(records: list[OpenRecord]) -> list[dict[str, Any]]:
    return [{"request_id": str(record.id), "input_tokens": 140, "output_tokens": 20} for record in records]


def as_lines(truth: list[dict[str, Any]]) -> str:
    return "\n".join(orjson.dumps(attempt).decode() for attempt in truth)


@pytest.fixture
async def served(writer: RecordWriter) -> list[OpenRecord]:
    records = [a_record() for _ in range(20)]
    for record in records:
        await writer.open(record)
        writer.settle(an_end(record))
    await settled(writer)
    return records


async def test_the_upstreams_own_truth_shows_no_difference(served: list[OpenRecord]) -> None:
    result = await aside(reconcile, as_lines(truth_of(served)), upstream="provider")

    assert (result.compared, result.differences) == (20, ())


async def test_a_record_that_the_ledger_lost_is_named(served: list[OpenRecord], query: Query) -> None:
    query("DELETE FROM usage_usagerecord WHERE id = %s", served[7].id)

    result = await aside(reconcile, as_lines(truth_of(served)), upstream="provider")

    assert [(one.subject, one.reason) for one in result.differences] == [
        (str(served[7].id), "the export has it, the ledger doesn't")
    ]


async def test_a_record_that_the_export_lacks_is_named(served: list[OpenRecord]) -> None:
    truth = truth_of(served)
    del truth[7]

    result = await aside(reconcile, as_lines(truth), upstream="provider")

    assert [one.subject for one in result.differences] == [str(served[7].id)]


async def test_other_tokens_are_named_unless_the_ledger_calls_its_own_estimated(
    writer: RecordWriter, served: list[OpenRecord]
) -> None:
    estimated, still_open = a_record(), a_record()
    await writer.open(estimated)
    await writer.open(still_open)
    writer.settle(an_end(estimated, state=State.CLIENT_GONE, source=Source.ESTIMATED, output_tokens=7))
    await settled(writer)
    truth = truth_of([*served, estimated, still_open])
    truth[3]["output_tokens"] = 21

    result = await aside(reconcile, as_lines(truth), upstream="provider")

    assert [(one.subject, one.reason) for one in result.differences] == [
        (str(served[3].id), "input and output tokens: ledger (140, 20), export (140, 21)"),
        (str(still_open.id), "the ledger still has it open"),
    ]


SUMS = "day,model,requests,input_tokens,output_tokens\n{day},glm-5,20,{input},400\n"


@pytest.mark.parametrize(("theirs", "differences"), [(2800, 0), (2802, 0), (2804, 1), (0, 1)])
async def test_sums_may_be_apart_by_a_thousandth(theirs: int, differences: int, served: list[OpenRecord]) -> None:
    text = SUMS.format(day=timezone.now().date(), input=theirs)

    result = await aside(reconcile, text, upstream="provider")

    assert len(result.differences) == differences


async def test_a_model_only_the_ledger_knows_is_named(served: list[OpenRecord]) -> None:
    text = SUMS.format(day=timezone.now().date(), input=2800).replace("glm-5", "other")

    result = await aside(reconcile, text, upstream="provider")

    assert {one.subject.split()[1] for one in result.differences} == {"glm-5", "other"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"request_id": "01a22df8-e180-7651-b0e1-1742c4ece8e2"}\n{"request_id": 5}', 2),
        ('{"id": 1}', 1),
        ("{broken", 1),
        ("day,model\n", 1),
        ("day,model,input_tokens,output_tokens\n", 1),
        ("day,model,input_tokens,output_tokens\n2026-01-01,m,1,2\nyesterday,m,1,2\n", 3),
        ("day,model,input_tokens,output_tokens\n2026-01-01,m,one,2\n", 2),
    ],
)
def test_an_export_that_cannot_be_read_names_the_line(text: str, line: int) -> None:
    with pytest.raises(ExportError, match=f"line {line}"):
        reconcile(text, upstream="provider")


async def test_the_command_fails_when_there_is_a_difference(
    served: list[OpenRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "truth.jsonl"
    file.write_text(as_lines(truth_of(served)))
    await aside(call_command, "reconcile", file, upstream="provider")
    assert capsys.readouterr().out == "no difference in 20 compared\n"

    file.write_text(as_lines(truth_of(served)[:-2] + truth_of([a_record()])))
    with pytest.raises(CommandError, match="3 differences in 19 compared"):
        await aside(call_command, "reconcile", file, upstream="provider")


async def test_usage_is_printed_as_a_table(served: list[OpenRecord], capsys: pytest.CaptureFixture[str]) -> None:
    await aside(call_command, "usage", by="user,model")

    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["user", "model", "requests", "errors"]
    assert line.split()[:8] == ["alice", "glm-5", "20", "0", "2000", "800", "400", "0.0000+?"]

    with pytest.raises(CommandError, match="group by"):
        await aside(call_command, "usage", by="secret")
