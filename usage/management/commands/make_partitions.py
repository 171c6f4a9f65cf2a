from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.utils import timezone

from usage.partitions import MONTHS_AHEAD, make_partitions


class Command(BaseCommand):
    help = "Make the partitions of the usage records for this month and the next ones."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--months", type=int, default=MONTHS_AHEAD, help="months ahead of this one")

    def handle(self, *args: Any, months: int, **options: Any) -> None:
        made = make_partitions(connection, timezone.now(), months_ahead=months)
        self.stdout.write(f"made {', '.join(made)}" if made else "all partitions are there")
