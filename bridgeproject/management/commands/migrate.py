from typing import Any

from django.core.management.commands import migrate
from django.db import connections

#: A change of a table waits for whoever uses it, and all who come later wait behind the change.
LOCK_TIMEOUT = "2s"


class Command(migrate.Command):
    help = "Bring the database's tables up to date; gives up, to be run again, where others hold a table for long."

    def handle(self, *args: Any, **options: Any) -> None:
        with connections[options["database"]].cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [LOCK_TIMEOUT])
        try:
            super().handle(*args, **options)
        finally:
            with connections[options["database"]].cursor() as cursor:
                cursor.execute("RESET lock_timeout")
