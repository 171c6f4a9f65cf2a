"""The sum: whatever went wrong, the ledger says what the upstream says."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.gateway import RunningGateway
from tests.upstream import ScriptedUpstream

#: An estimate may miss what was really made by this share, and by so many tokens a record.
ESTIMATE_SHARE = 0.10
ESTIMATE_TOKENS = 3
#: Tokens of a record that were on their way when its client left, so that the gateway never read them.
IN_FLIGHT_TOKENS = 10
#: States of records whose call never reached an upstream.
UNSENT = {"refused"}


def assert_ledger_adds_up(
    gateway: RunningGateway,
    upstream: ScriptedUpstream,
    *,
    ended_well: Mapping[str, bool] | None = None,
    unreachable: int = 0,
    lost: int = 0,
) -> list[dict[str, Any]]:
    """Hold every usage record against the upstream's own account, and return the records.

    Args:
        gateway: Its records, all made since `upstream` was reset, or older than that and not of it.
        upstream: The only upstream that was called meanwhile.
        ended_well: By the `request-id` that the client got: whether it saw a proper end.
        unreachable: The most records of calls that the upstream may not know: nobody answered there, or the
            client left before the call was through.
        lost: The most records that a killed worker may have left.
    """
    truth = upstream.wait_for(lambda truth: truth["totals"]["open"] == 0, within_s=10)
    attempts = {attempt["request_id"]: attempt for attempt in truth["attempts"]}
    assert len(attempts) == len(truth["attempts"]), "two attempts came under one id"
    first = min((attempt["started_at"] for attempt in truth["attempts"]), default=0.0)
    records = [r for r in gateway.settled() if str(r["id"]) in attempts or r["started_at"].timestamp() > first]

    _assert_each_attempt_has_one_record(records, attempts, unreachable)
    exact = [(r, attempts[str(r["id"])]) for r in records if r["source"] == "upstream" and str(r["id"]) in attempts]
    for record, attempt in exact:
        _assert_exact(record, attempt)
    _assert_estimates([(r, attempts[str(r["id"])]) for r in records if r["source"] in ("partial", "estimated")])
    assert sum(r["state"] == "lost" for r in records) <= lost
    if ended_well is not None:
        _assert_clients_agree(records, ended_well)
    return records


def _assert_each_attempt_has_one_record(
    records: list[dict[str, Any]], attempts: dict[str, dict[str, Any]], unreachable: int
) -> None:
    """Rule 1: none missing, none too many, none open."""
    ids = {str(record["id"]) for record in records}
    missing = attempts.keys() - ids
    assert not missing, f"the ledger has no record of {[attempts[one] for one in missing]}"
    extra = [r for r in records if str(r["id"]) not in attempts and r["state"] not in UNSENT]
    assert len(extra) <= unreachable, f"the upstream knows nothing of {extra}"
    assert all(r["state"] != "ok" and r["output_tokens"] == 0 for r in extra), extra
    assert not Counter(record["state"] for record in records)["open"]


def _assert_exact(record: dict[str, Any], attempt: dict[str, Any]) -> None:
    """Rule 2: what the upstream counted is what stands in the record."""
    of_record = {
        "input_tokens": record["input_tokens"] + record["cache_read_tokens"] + record["cache_write_tokens"],
        "cached_tokens": record["cache_read_tokens"],
        "output_tokens": record["output_tokens"],
        "reasoning_tokens": record["thinking_tokens"],
    }
    assert of_record == {name: attempt[name] for name in of_record}, (record, attempt)
    assert attempt["usage_sent"], f"the upstream sent no usage for {record}"


def _assert_estimates(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Rule 3: an estimate lies between what was sent and what was made, and so does the sum, within 10 %."""
    in_flight = 0
    for record, attempt in pairs:
        is_gone = record["state"] == "client_gone"
        unread = IN_FLIGHT_TOKENS if is_gone else 0
        in_flight += unread
        slack = ESTIMATE_TOKENS + ESTIMATE_SHARE * attempt["output_tokens"]
        low, high = attempt["sent_tokens"] - slack - unread, attempt["output_tokens"] + slack
        assert low <= record["output_tokens"] <= high, (record["output_tokens"], attempt, record)
        was_counted = attempt["finished"] and attempt["usage_sent"]
        assert not was_counted or is_gone or "usage_absurd" in record["notes"], f"usage had arrived: {record}"
    made, sent = (sum(attempt[name] for _, attempt in pairs) for name in ("output_tokens", "sent_tokens"))
    guessed = sum(record["output_tokens"] for record, _ in pairs)
    margin = ESTIMATE_SHARE * made + ESTIMATE_TOKENS
    assert sent - margin - in_flight <= guessed <= made + margin, f"{guessed} estimated, {sent} sent, {made} made"


def _assert_clients_agree(records: list[dict[str, Any]], ended_well: Mapping[str, bool]) -> None:
    """Rule 6: a client saw a proper end if and only if its last attempt is `ok`."""
    last = {record["request_id"]: record["state"] for record in sorted(records, key=lambda record: record["attempt"])}
    for request_id, is_well in ended_well.items():
        assert (last.get(request_id) == "ok") == is_well, (request_id, is_well, last.get(request_id))
