from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.utils import timezone

from usage.models import ConversationSummary, PoolChange
from usage.partitions import drop_partitions
from usage.reports import HOURS_OF
from usage.retention import drop_sums
from usage.rollups import ROLLUPS, Rollup


class Command(BaseCommand):
    help = (
        "Drop the months of usage records, the history of the pool, and summaries of conversations, that are older than"
        " so many days;"
        " if asked, also old sums by hour and day."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("days", type=int, help="keep records at least this many days")
        parser.add_argument("--hours", type=int, metavar="DAYS", help="keep sums by hour so long (default: for ever)")
        parser.add_argument("--sums", type=int, metavar="DAYS", help="keep sums by day so long (default: for ever)")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be dropped")

    def handle(self, *args: Any, days: int, hours: int | None, sums: int | None, dry_run: bool, **options: Any) -> None:
        if hours is not None and hours < HOURS_OF.days:
            msg = f"reports by hour reach back {HOURS_OF.days} days: keep the hours so long"
            raise CommandError(msg)
        now, word = timezone.now(), "would drop" if dry_run else "dropped"
        before = now - timedelta(days=days)
        dropped = drop_partitions(connection, before, dry_run=dry_run)
        if not dry_run:
            PoolChange.objects.filter(changed_at__lt=before).delete()
            ConversationSummary.objects.filter(made_at__lt=before).delete()
        for rollup in ROLLUPS:
            kept = hours if rollup.span == "hour" else sums
            if kept is not None and (gone := _old_sums(rollup, kept, dry_run=dry_run)):
                dropped.append(f"{gone} rows of {rollup.table}")
        self.stdout.write(f"{word} {', '.join(dropped)}" if dropped else "nothing is old enough")


def _old_sums(rollup: Rollup, days: int, *, dry_run: bool) -> int:
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    return drop_sums(connection, rollup, midnight - timedelta(days=days), dry_run=dry_run)
