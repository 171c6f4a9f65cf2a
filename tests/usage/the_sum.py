"""What must hold between the upstream's truth and the ledger after every run, whatever broke in it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Query = Callable[..., list[dict[str, Any]]]

#: What an upstream may have seen of an attempt in these states; `refused` and `lost` may never have been sent.
MAY_BE_UNSENT = {"refused", "lost"}
TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens")
DEVIATION_MAX = 0.10


def check_the_sum(
    query: Query, truth: Iterable[Mapping[str, Any]], *, lost_max: int = 0, client_saw_end: set[str] | None = None
) -> None:
    """Hold records, sums, budgets and reservations against the truth.

    Args:
        query: Asks the ledger's database.
        truth: An attempt each: `request_id` (the record's id), `input_tokens`, `output_tokens` as generated,
            `sent_tokens` of the output that left, and `usage_sent`.
        lost_max: Attempts that were alive on processes that were killed.
        client_saw_end: Ids of the records whose client got a proper end; None leaves that out.
    """
    records = {str(row["id"]): row for row in query("SELECT * FROM usage_usagerecord")}
    attempts = {str(attempt["request_id"]): attempt for attempt in truth}
    check_each_attempt_has_one_record(records, attempts)
    check_tokens(records, attempts)
    lost = [row for row in records.values() if row["state"] == "lost"]
    assert len(lost) <= lost_max, f"{len(lost)} records lost, at most {lost_max} may be"
    check_sums_follow_records(query)
    check_budgets_follow_records(query)
    if client_saw_end is not None:
        ok = {identity for identity, row in records.items() if row["state"] == "ok"}
        assert ok == client_saw_end, f"{len(ok ^ client_saw_end)} ends that client and ledger disagree on"


def check_each_attempt_has_one_record(records: Mapping[str, Any], attempts: Mapping[str, Any]) -> None:
    missing = attempts.keys() - records.keys()
    assert not missing, f"{len(missing)} attempts have no record"
    still_open = [identity for identity, row in records.items() if row["state"] == "open"]
    assert not still_open, f"{len(still_open)} records are open"
    sent = {identity for identity, row in records.items() if row["state"] not in MAY_BE_UNSENT}
    extra = sent - attempts.keys()
    assert not extra, f"{len(extra)} records have no attempt"


def check_tokens(records: Mapping[str, Any], attempts: Mapping[str, Any]) -> None:
    guessed = true = 0
    for identity, attempt in attempts.items():
        row = records[identity]
        read = row["input_tokens"] + row["cache_read_tokens"] + row["cache_write_tokens"]
        if row["source"] == "upstream":
            assert (read, row["output_tokens"]) == (attempt["input_tokens"], attempt["output_tokens"]), identity
        elif row["source"] in ("partial", "estimated"):
            assert not attempt["usage_sent"] or row["state"] != "ok", f"{identity} has its usage, and guesses"
            guessed += row["output_tokens"]
            true += min(max(row["output_tokens"], attempt["sent_tokens"]), attempt["output_tokens"])
    assert abs(guessed - true) <= DEVIATION_MAX * max(true, 1), f"guessed {guessed}, true {true}"


def check_sums_follow_records(query: Query) -> None:
    """Hours and days are the sums of the records, to the token."""
    columns = ", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in (*TOKENS, "cost_nano"))
    settled = query(
        f"SELECT count(*) AS attempts, {columns} FROM usage_usagerecord WHERE state <> 'open'"  # noqa: S608
    )
    for table in ("usage_usagehour", "usage_usageday"):
        sums = query(f"SELECT coalesce(sum(attempts), 0)::bigint AS attempts, {columns} FROM {table}")  # noqa: S608
        assert sums == settled, table


def check_budgets_follow_records(query: Query) -> None:
    """What budgets have spent is what their records cost, and nothing is held any more."""
    assert query("SELECT * FROM usage_reservation") == []
    for budget in query("SELECT * FROM usage_budget"):
        assert budget["reserved"] == 0
        spent = (
            "coalesce(sum(cost_nano), 0)"
            if budget["unit"] == "usd"
            else "coalesce(sum(input_tokens + cache_read_tokens + cache_write_tokens + output_tokens), 0)"
        )
        owner = {"user": "user_id", "team": "team_id", "token": "token_id"}[budget["subject"]]
        (row,) = query(
            f"SELECT {spent}::bigint AS spent FROM usage_usagerecord"  # noqa: S608
            f" WHERE {owner} = %s AND settled_at >= %s AND state <> 'open'",
            budget["subject_id"],
            budget["period_start"],
        )
        assert budget["spent"] == row["spent"], budget["name"]
