from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from bridgeproject import server
from bridgeproject.database import running_database


class Command(BaseCommand):
    help = "Run the server alone, on the database that BRIDGE_DATABASE_URL names or the data directory holds."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--workers", type=int, default=1)
        parser.add_argument("--data-dir", help="where the embedded database and the keys are (default .bridge)")

    def handle(self, *args: Any, **options: Any) -> None:
        listener = server.bind(options["host"], options["port"])
        with running_database(settings.DATA_DIR, external=bool(settings.DATABASE_URL)):
            _bring_up_to_date()
            host, port = listener.getsockname()[:2]
            self.stdout.write(f"serving on http://{host}:{port}")
            self.stdout.flush()
            server.run(listener, workers=options["workers"], restarts=True)


def _bring_up_to_date() -> None:
    """Migrate the database that is ours alone; for one that others may be using, only say what to do."""
    if not settings.DATABASE_URL:
        call_command("migrate", verbosity=0, interactive=False)
        return
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        msg = "the database's tables are older than this version: run `manage.py migrate` first"
        raise CommandError(msg)
    connection.close()
