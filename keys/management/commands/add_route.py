from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from keys.management.commands import one_line
from keys.routes import set_target


class Command(BaseCommand):
    help = (
        "Lead an alias to an upstream. Called again for the same alias and upstream, replace the upstream model; "
        "for another upstream, append a fallback."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("alias", help="a name, a pattern such as claude-*, or * for every name")
        parser.add_argument("upstream")
        parser.add_argument("upstream_model", nargs="?", default="", help="left out, the client's own name is sent on")

    def handle(self, *args: Any, **options: Any) -> None:
        with one_line():
            try:
                change = set_target(options["alias"], options["upstream"], options["upstream_model"])
            except LookupError as exc:
                raise CommandError(str(exc.args[0])) from exc
        self.stdout.write(change)
