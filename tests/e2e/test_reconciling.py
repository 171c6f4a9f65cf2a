"""The ledger of a gateway held against the file that the upstream itself wrote."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.e2e.client import ask, opened, question
from tests.gateway import MakeGateway, RunningGateway, route_words, upstream_words
from tests.keys.processes import until

MODELS = ["mock-n20-d0", "script/think,tools=2", "script/cached=3,frames=8", "script/nousage,frames=5"]


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Give the address of a provider, and the file to which it writes what it served."""
    file = tmp_path / "truth.jsonl"
    arguments = ["-m", "demo.upstream", "--port", "0", "--truth", str(file), "--fsync"]
    running = processes.start(arguments, log=tmp_path / "upstream.log")
    yield running.first_line.removeprefix("listening on "), file
    running.stop()


@pytest.fixture
def served(gateway: MakeGateway, provider: tuple[str, Path]) -> RunningGateway:
    made = gateway(commands=[upstream_words("provider", provider[0], "sk-one"), route_words("*", "provider")])
    for model in MODELS * 5:
        ask(made, model)
        ask(made, model, stream=False)
    with opened(made, question("script/ok,frames=100,gap=20ms", stream=True)) as answer:
        next(answer.iter_raw())
    count = len(MODELS) * 10 + 1
    made.settled(count)
    # The provider may note a little later that a client has left.
    until(lambda: len(provider[1].read_text(encoding="utf-8").splitlines()) == count, within_s=60)
    return made


def test_the_providers_own_file_shows_no_difference_until_a_record_is_missing(
    served: RunningGateway, provider: tuple[str, Path]
) -> None:
    _, file = provider
    said = served.command("reconcile", str(file), "--upstream", "provider")
    assert said == f"no difference in {len(MODELS) * 10 + 1} compared"

    [row] = served.sql(
        "DELETE FROM usage_usagerecord"
        " WHERE id = (SELECT id FROM usage_usagerecord ORDER BY id DESC LIMIT 1) RETURNING id"
    )

    with pytest.raises(AssertionError, match=f"{row['id']}: the export has it, the ledger doesn't"):
        served.command("reconcile", str(file), "--upstream", "provider")
