import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from keys.management.commands import one_line
from keys.management.commands.export_setup import passphrase_from
from keys.setup_file import BadSetup
from keys.transfer import import_setup


class Command(BaseCommand):
    help = "Store what a file of export_setup says, all of it or nothing; what it doesn't mention stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="- for standard input")
        parser.add_argument("--passphrase-env", metavar="VAR", help="a variable with the passphrase of its secrets")

    def handle(self, *args: Any, **options: Any) -> None:
        passphrase = passphrase_from(options["passphrase_env"])
        with one_line():
            try:
                text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text(encoding="utf-8")
                imported = import_setup(text, passphrase)
            except (BadSetup, OSError, UnicodeDecodeError) as exc:
                raise CommandError(str(exc)) from exc
        self.stdout.write(f"Imported: {imported}")
