from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from keys.models import Upstream
from usage.prices import PriceListError, import_prices, read_price_list


class Command(BaseCommand):
    help = "Import prices from LiteLLM's price file or a CSV file. A file with a mistake is refused whole."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--upstream", default="", help="name of the upstream they are for; without it: any")
        parser.add_argument("--provider", default="", help="of LiteLLM's file, only this provider's models")
        parser.add_argument("--valid-from", type=datetime.fromisoformat, help="day or moment (UTC); without it: now")

    def handle(self, *args: Any, file: Path, upstream: str, provider: str, **options: Any) -> None:
        try:
            rows = read_price_list(file.read_text(encoding="utf-8"), provider=provider)
        except (OSError, UnicodeDecodeError, PriceListError) as exc:
            msg = f"{file}: {exc}"
            raise CommandError(msg) from exc
        moment = options["valid_from"]
        valid_from = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) if moment else timezone.now()
        count = import_prices(rows, valid_from=valid_from, upstream_id=_id_of(upstream), origin=file.name)
        self.stdout.write(f"imported {count} prices, {len(rows) - count} were known")


def _id_of(name: str) -> int | None:
    if not name:
        return None
    found = Upstream.objects.filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        msg = f"there is no upstream {name!r}"
        raise CommandError(msg)
    return int(found)
