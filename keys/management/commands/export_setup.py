import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from keys.setup_file import BadSetup
from keys.transfer import export_setup


class Command(BaseCommand):
    help = "Print upstreams, models, credentials and routes as YAML; without secrets, unless there is a passphrase."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--passphrase-env", metavar="VAR", help="a variable with a passphrase to seal secrets under"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(export_setup(passphrase_from(options["passphrase_env"])), ending="")
        except BadSetup as exc:
            raise CommandError(str(exc)) from exc


def passphrase_from(variable: str | None) -> str:
    """Return the variable's value; "" when none was named."""
    if variable is None:
        return ""
    if not (value := os.environ.get(variable, "")):
        msg = f"the variable {variable} is not set"
        raise CommandError(msg)
    return value
