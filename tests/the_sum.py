"""The sum: whatever broke, the ledger says what the upstream says, and budgets and reports say what the ledger says.

One function for all runs, of the ledger alone and of whole gateways. Its rules:

1. every attempt has one record, every record that may have been sent has its attempt, none is open
2. what the upstream counted to the end is what stands in the record
3. an estimate lies between what was sent and what was made, and so does their sum, within 10 %
4. only a killed process leaves records as lost, and no more than it had running
5. budgets have spent what their records cost, and nothing is held any more; hours and days are sums of the records
6. a client saw a proper end if and only if its last attempt is `ok`, or failed to go on with what is `continued`

That memory, files and connections come to rest is looked at in `tests.e2e.rest`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Query = Callable[..., list[dict[str, Any]]]
Row = Mapping[str, Any]

#: An estimate may miss what was really made by this share, and by so many tokens a record.
ESTIMATE_SHARE = 0.10
ESTIMATE_TOKENS = 3
#: States of records whose stream the gateway hung up on, and the tokens that were on their way then: it never read them.
HUNG_UP = {"client_gone", "timeout"}
IN_FLIGHT_TOKENS = 10
#: States of records whose call may never have reached an upstream.
MAY_BE_UNSENT = {"refused", "lost"}
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens")


def check_the_sum(
    query: Query,
    records: Sequence[Row],
    truth: Iterable[Row],
    *,
    lost: int = 0,
    unreachable: int = 0,
    ended_well: Mapping[str, bool] | None = None,
    in_flight: int = IN_FLIGHT_TOKENS,
) -> None:
    """Hold records, sums, budgets and reservations against the truth.

    Args:
        query: Asks the ledger's database.
        records: All usage records that may belong to `truth`.
        truth: An attempt each: `request_id` (the record's id), `input_tokens`, `output_tokens` as made,
            `sent_tokens` of the output that left, `usage_sent`; see `demo.truth`.
        lost: The most records that killed processes may have left.
        unreachable: The most records of calls that the upstream may not know, with a state that says that they were
            sent: nobody answered there, or the client left before the call was through.
        ended_well: By the request id that the client got: whether it saw a proper end; None leaves that out.
        in_flight: The most tokens of a stream that may be on their way when it is hung up on.
    """
    attempts = {str(attempt["request_id"]): attempt for attempt in truth}
    pairs = [(record, attempts[str(record["id"])]) for record in records if str(record["id"]) in attempts]
    check_each_attempt_has_one_record(records, attempts, unreachable)
    for record, attempt in pairs:
        if record["source"] == "upstream":
            check_exact(record, attempt)
    check_estimates([pair for pair in pairs if pair[0]["source"] in ("partial", "estimated")], in_flight)
    count = Counter(record["state"] for record in records)["lost"]
    assert count <= lost, f"{count} records lost, at most {lost} may be"
    check_sums_follow_records(query)
    check_budgets_follow_records(query)
    check_clients_agree(records, ended_well or {})


def check_each_attempt_has_one_record(records: Sequence[Row], attempts: Mapping[str, Row], unreachable: int) -> None:
    """Rule 1: none missing, none too many, none open."""
    ids = {str(record["id"]) for record in records}
    missing = attempts.keys() - ids
    assert not missing, f"the ledger has no record of {[attempts[one] for one in missing]}"
    still_open = [record for record in records if record["state"] == "open"]
    assert not still_open, f"{len(still_open)} records are open: {still_open[:3]}"
    extra = [r for r in records if str(r["id"]) not in attempts and r["state"] not in MAY_BE_UNSENT]
    assert len(extra) <= unreachable, f"the upstream knows nothing of {len(extra)}: {extra[:3]}"
    assert all(r["state"] != "ok" and r["output_tokens"] == 0 for r in extra), extra
    unsent = [r for r in records if r["state"] == "refused" and str(r["id"]) in attempts]
    assert not unsent, f"sent all the same: {unsent[:3]}"


def check_exact(record: Row, attempt: Row) -> None:
    """Rule 2: what the upstream counted is what stands in the record."""
    of_record = {
        "input_tokens": record["input_tokens"] + record["cache_read_tokens"] + record["cache_write_tokens"],
        "cached_tokens": record["cache_read_tokens"],
        "output_tokens": record["output_tokens"],
        "reasoning_tokens": record["thinking_tokens"],
    }
    of_attempt = {name: attempt.get(name, 0) for name in of_record}
    assert of_record == of_attempt, (record, attempt)
    assert attempt["usage_sent"], f"the upstream sent no usage for {record}"


def check_estimates(pairs: Sequence[tuple[Row, Row]], in_flight: int) -> None:
    """Rule 3: an estimate lies between what was sent and what was made, and so does the sum, within 10 %."""
    all_unread = 0
    for record, attempt in pairs:
        is_gone = record["state"] == "client_gone"
        unread = in_flight if record["state"] in HUNG_UP else 0
        all_unread += unread
        slack = ESTIMATE_TOKENS + ESTIMATE_SHARE * attempt["output_tokens"]
        low, high = attempt["sent_tokens"] - slack - unread, attempt["output_tokens"] + slack
        assert low <= record["output_tokens"] <= high, (record["output_tokens"], attempt, record)
        was_counted = attempt["usage_sent"] and attempt.get("finished", True)
        assert not was_counted or is_gone or "usage_absurd" in record["notes"], f"usage had arrived: {record}"
    made, sent = (sum(attempt[name] for _, attempt in pairs) for name in ("output_tokens", "sent_tokens"))
    guessed = sum(record["output_tokens"] for record, _ in pairs)
    margin = ESTIMATE_SHARE * made + ESTIMATE_TOKENS
    assert sent - margin - all_unread <= guessed <= made + margin, f"{guessed} estimated, {sent} sent, {made} made"


def check_sums_follow_records(query: Query) -> None:
    """Rule 5: hours and days are the sums of the records, to the token."""
    columns = ", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in (*TOKENS, "cost_nano"))
    settled = query(
        f"SELECT count(*) AS attempts, {columns} FROM usage_usagerecord WHERE state <> 'open'"  # noqa: S608
    )
    for table in ("usage_usagehour", "usage_usageday", "usage_credentialday", "usage_crossedday"):
        sums = query(f"SELECT coalesce(sum(attempts), 0)::bigint AS attempts, {columns} FROM {table}")  # noqa: S608
        assert sums == settled, table


def check_budgets_follow_records(query: Query) -> None:
    """Rule 5: what budgets have spent is what their records cost, and nothing is held any more."""
    assert query("SELECT * FROM usage_reservation") == []
    for budget in query("SELECT * FROM usage_budget"):
        assert budget["reserved"] == 0, budget
        spent = (
            "coalesce(sum(cost_nano), 0)"
            if budget["unit"] == "usd"
            else "coalesce(sum(input_tokens + cache_read_tokens + cache_write_tokens + output_tokens), 0)"
        )
        owner = {"user": "user_id", "team": "team_id", "token": "token_id"}[budget["subject"]]
        (row,) = query(
            f"SELECT {spent}::bigint AS spent FROM usage_usagerecord"  # noqa: S608
            f" WHERE {owner} = %s AND settled_at >= %s AND state <> 'open'"
            " AND (%s::text[] = '{}' OR alias LIKE ANY (%s))",
            budget["subject_id"],
            budget["period_start"],
            budget["aliases"],
            [pattern.replace("*", "%") for pattern in budget["aliases"]],
        )
        assert budget["spent"] == row["spent"], budget["name"]


def check_clients_agree(records: Sequence[Row], ended_well: Mapping[str, bool]) -> None:
    """Rule 6. Of a lost record nobody knows how it ended, so it may have ended well."""
    last = {record["request_id"]: record["state"] for record in sorted(records, key=lambda record: record["attempt"])}
    gone_on = {record["request_id"] for record in records if "continued" in record["notes"]}
    for request_id, is_well in ended_well.items():
        if last.get(request_id) != "lost" and not (is_well and request_id in gone_on):
            assert (last.get(request_id) == "ok") == is_well, (request_id, is_well, last.get(request_id))
