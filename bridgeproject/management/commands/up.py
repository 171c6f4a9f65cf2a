import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from bridgeproject import server
from bridgeproject.bootstrap import ADMIN_NAME, Made, make_first_things, point_at_demo
from bridgeproject.database import running_database
from bridgeproject.demo import running_demo
from bridgeproject.lock import AlreadyRunning, only_one

GREETING = """
Bridge is up.

  Messages API   {url}
  admin          {url}/admin/    login {login}

Try it:
  curl {url}/v1/messages -H 'x-api-key: {token}' -H 'content-type: application/json' \\
    -d '{{"model": "claude-sonnet-4-5", "max_tokens": 200, "messages": [{{"role": "user", "content": "Hello"}}]}}'

Claude Code:
  export ANTHROPIC_BASE_URL={url}
  export ANTHROPIC_AUTH_TOKEN={token}
{hint}
Ctrl-C stops everything."""

HINT = """
Nothing is routed yet. Give Bridge an upstream and a route in another terminal:
  uv run manage.py add_upstream NAME https://HOST/v1 --key KEY
  uv run manage.py add_route '*' NAME
"""


class Command(BaseCommand):
    help = "Run everything: database, migrations, first administrator and token, server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--workers", type=int, default=1)
        parser.add_argument("--data-dir", help="where the embedded database and the keys are (default .bridge)")
        parser.add_argument("--demo", action="store_true", help="also run a scripted upstream and route to it")

    def handle(self, *args: Any, **options: Any) -> None:
        _allow_loopback()
        try:
            with only_one(settings.DATA_DIR):
                self._run(**options)
        except AlreadyRunning as exc:
            raise CommandError(str(exc)) from exc

    def _run(self, *, host: str, port: int, workers: int, demo: bool, **_: Any) -> None:
        listener = server.bind(host, port)
        port = listener.getsockname()[1]
        with running_database(settings.DATA_DIR, external=bool(settings.DATABASE_URL), ours=True):
            call_command("migrate", verbosity=0, interactive=False)
            made = make_first_things()
            with running_demo(wanted=demo) as demo_url:
                point_at_demo(demo_url)
                self._greet(f"http://{host}:{port}", made)
                server.run(listener, workers=workers)

    def _greet(self, url: str, made: Made) -> None:
        from keys.models import Route

        login = f"{ADMIN_NAME}, password {made.admin_password} (shown once)" if made.admin_password else "as before"
        token = made.token or "YOUR_TOKEN"
        hint = "" if Route.objects.exists() else HINT
        if made.token is None:
            hint += "\nAnother token:  uv run manage.py issue_token USER\n"
        self.stdout.write(GREETING.format(url=url, login=login, token=token, hint=hint))
        self.stdout.flush()


def _allow_loopback() -> None:
    """Let upstreams be on this machine: whoever runs `up` is its owner. Workers read the environment."""
    allowed = [*settings.ALLOW_PRIVATE_UPSTREAMS, *settings.LOOPBACK]
    settings.ALLOW_PRIVATE_UPSTREAMS = allowed
    os.environ["BRIDGE_ALLOW_PRIVATE_UPSTREAMS"] = ",".join(allowed)
    os.environ["BRIDGE_DATA_DIR"] = str(Path(settings.DATA_DIR))
