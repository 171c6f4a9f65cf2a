from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from usage.periods import day_start
from usage.reports import DIMENSIONS, SPANS, Question, report
from usage.visibility import Scope

COLUMNS = ("requests", "errors", "input", "cached", "output", "cost USD", "estimated", "ttft p50", "ttft p95")


class Command(BaseCommand):
    help = "Print usage as a table."

    def add_arguments(self, parser: CommandParser) -> None:
        known = ", ".join((*SPANS, *DIMENSIONS))
        parser.add_argument("--by", default="user", help=f"one or two of {known}, comma-separated")
        parser.add_argument("--days", type=int, default=30, help="so many days up to today (UTC)")

    def handle(self, *args: Any, by: str, days: int, **options: Any) -> None:
        today = timezone.now().date()
        groups = tuple(word for word in by.split(",") if word)
        start, end = day_start(today - timedelta(days=days - 1)), day_start(today + timedelta(days=1))
        try:
            question = Question(start=start, end=end, groups=groups, scope=Scope(is_everything=True))
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        table = [[*groups, *COLUMNS], *(_cells(groups, row) for row in report(question))]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for cells in table:
            texts, numbers = cells[: len(groups)], cells[len(groups) :]
            left = [cell.ljust(width) for cell, width in zip(texts, widths, strict=False)]
            right = [cell.rjust(width) for cell, width in zip(numbers, widths[len(groups) :], strict=True)]
            self.stdout.write("  ".join((*left, *right)).rstrip())


def _cells(groups: tuple[str, ...], row: dict[str, Any]) -> list[str]:
    names = [f"{row[group]:%Y-%m-%d %H:%M}" if group in SPANS else _printable(str(row[group])) for group in groups]
    cost = f"{row['cost_nano'] / 1e9:.4f}" + ("+?" if row["unpriced"] else "")
    return [
        *names,
        str(row["requests"]),
        str(row["errors"]),
        str(row["input_tokens"]),
        str(row["cache_read_tokens"] + row["cache_write_tokens"]),
        str(row["output_tokens"]),
        cost,
        f"{100 * (row['estimated_share'] or 0):.1f} %",
        _time(row["ttft_p50_ms"]),
        _time(row["ttft_p95_ms"]),
    ]


def _time(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds} ms"


def _printable(name: str) -> str:
    """Keep a name of a stranger from steering the terminal."""
    return "".join(char if char.isprintable() else "?" for char in name)[:40]
