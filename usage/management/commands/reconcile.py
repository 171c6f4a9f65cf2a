from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from usage.reconciling import ExportError, reconcile

SHOWN_MAX = 50


class Command(BaseCommand):
    help = "Hold the ledger against an upstream's usage export (JSON lines per attempt, or CSV with daily sums)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--upstream", required=True, help="name of the upstream it comes from")

    def handle(self, *args: Any, file: Path, upstream: str, **options: Any) -> None:
        try:
            result = reconcile(file.read_text(encoding="utf-8"), upstream=upstream)
        except (OSError, UnicodeDecodeError, ExportError) as exc:
            msg = f"{file}: {exc}"
            raise CommandError(msg) from exc
        for difference in result.differences[:SHOWN_MAX]:
            self.stderr.write(f"{difference.subject}: {difference.reason}")
        if result.differences:
            msg = f"{len(result.differences)} differences in {result.compared} compared"
            raise CommandError(msg)
        self.stdout.write(f"no difference in {result.compared} compared")
