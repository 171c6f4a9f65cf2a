"""The rules of the pool as Markdown tables, for docs/pool.md."""

from keys.pool.verdicts import KINDS, RULES, STATUSES, WORDS, Cause, Growth, Rule


def rules_table() -> str:
    """Render what follows from each cause."""
    rows = [_rule_row(cause, rule) for cause, rule in RULES.items()]
    return _table(["cause", "is about", "then", "state", "after", "rests", "comes back"], rows)


def answers_table() -> str:
    """Render which answer has which cause; the first row that fits decides."""
    rows = [[_statuses(statuses), f"`{_cell(words.pattern)}`", cause.value] for statuses, words, cause in WORDS]
    rows += [[str(status), "", cause.value] for status, cause in sorted(STATUSES.items())]
    rows += [
        ["other 4xx", "", Cause.CLIENT_FAULT.value],
        ["other 5xx", "", Cause.SERVER_ERROR.value],
        ["anything else that isn't an answer", "", Cause.BAD_ANSWER.value],
    ]
    rows += [[f"none ({kind.value.replace('_', ' ')})", "", cause.value] for kind, cause in KINDS.items()]
    return _table(["status", "words in the error", "cause"], rows)


def _rule_row(cause: Cause, rule: Rule) -> list[str]:
    about = [cause.value, rule.scope.value, rule.next_step.value]
    if rule.state is None:
        return [*about, "", "", "", ""]
    after = f"{rule.failures} in a row" if rule.failures > 1 else "the first"
    return [*about, rule.state.value, after, _rest(rule), rule.recovery.value]


def _rest(rule: Rule) -> str:
    grows = "twice as long each time" if rule.growth is Growth.DOUBLE else "so much longer each time"
    before = f"{_time(rule.rest_before_s)} at first, then " if rule.rest_before_s else ""
    return f"{before}{_time(rule.rest_s)}, {grows}, at most {_time(rule.rest_max_s)}"


def _time(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _statuses(statuses: frozenset[int]) -> str:
    return ", ".join("200 with an error" if status == 200 else str(status) for status in sorted(statuses))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)
