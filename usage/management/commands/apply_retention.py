from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.utils import timezone

from usage.models import PoolChange
from usage.partitions import drop_partitions


class Command(BaseCommand):
    help = (
        "Drop the months of usage records, and the history of the pool, that are older than so many days."
        " Sums by hour and day stay."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("days", type=int, help="keep at least this many days")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be dropped")

    def handle(self, *args: Any, days: int, dry_run: bool, **options: Any) -> None:
        before = timezone.now() - timedelta(days=days)
        dropped = drop_partitions(connection, before, dry_run=dry_run)
        if not dry_run:
            PoolChange.objects.filter(changed_at__lt=before).delete()
        word = "would drop" if dry_run else "dropped"
        self.stdout.write(f"{word} {', '.join(dropped)}" if dropped else "nothing is old enough")
