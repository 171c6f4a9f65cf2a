from datetime import date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from usage.repricing import Selection, planned, reprice


class Command(BaseCommand):
    help = "Compute costs anew with the prices stored by now. Says what would change; changes it with --yes only."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="start", type=date.fromisoformat, help="first day; without it: 30 days ago")
        parser.add_argument("--to", dest="end", type=date.fromisoformat, help="last day; without it: today")
        parser.add_argument("--model", default="", help="only this upstream model")
        parser.add_argument("--unpriced", action="store_true", help="only records whose cost is unknown")
        parser.add_argument("--yes", action="store_true", help="do it")

    def handle(self, *args: Any, model: str, unpriced: bool, yes: bool, **options: Any) -> None:
        today = timezone.now().date()
        selection = Selection(
            start=options["start"] or today - timedelta(days=30),
            end=(options["end"] or today) + timedelta(days=1),
            upstream_model=model,
            unpriced_only=unpriced,
        )
        changes = planned(selection)
        for one in changes:
            self.stdout.write(
                f"{one.upstream_model}: {one.records} records, {one.cost_before / 1e9:.6f} -> {one.cost_after / 1e9:.6f}"
                f" USD, unknown {one.unknown_before} -> {one.unknown_after}"
            )
        if yes and changes:
            done = sum(count for _, count in reprice(selection))
            self.stdout.write(f"priced {done} records anew")
        else:
            self.stdout.write("run it with --yes to do so" if changes else "nothing would change")
