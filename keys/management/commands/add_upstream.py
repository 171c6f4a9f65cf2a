import os
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from keys.credentials import add_secrets
from keys.management.commands import one_line
from keys.models import Dialect, Upstream
from keys.upstreams import UpstreamExists, add_upstream


class Command(BaseCommand):
    help = "Add an upstream and its credentials; called again for the same name and base URL, add credentials."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("base_url")
        parser.add_argument("--dialect", choices=Dialect.values, default=Dialect.OPENAI_CHAT.value)
        parser.add_argument("--profile", default="", help="the upstream's known quirks")
        parser.add_argument("--key", action="extend", nargs="+", default=[], metavar="K", help="a secret")
        parser.add_argument(
            "--key-env", action="extend", nargs="+", default=[], metavar="VAR", help="a variable that holds a secret"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        keys = [*options["key"], *_from_environment(options["key_env"])]
        with one_line(), transaction.atomic():
            try:
                upstream = add_upstream(
                    options["name"], options["base_url"], dialect=options["dialect"], profile=options["profile"]
                )
                is_new = True
            except UpstreamExists as exc:
                if not keys or exc.differs:
                    raise CommandError(str(exc)) from exc
                upstream, is_new = exc.upstream, False
            added = _add_keys(upstream, keys, is_new=is_new)
        what = f"Added upstream {upstream.name} at {upstream.base_url} with" if is_new else f"Added to {upstream.name}:"
        self.stdout.write(f"{what} {added} credential{'' if added == 1 else 's'}")


def _add_keys(upstream: Upstream, keys: list[str], *, is_new: bool) -> int:
    """Add the secrets; return how many are new."""
    added = add_secrets(upstream, keys)
    if added.refused:
        number, reason = added.refused[0]
        msg = f"key {number} was refused: {reason}"
        raise CommandError(msg)
    if not is_new and not added.credentials:
        msg = f"upstream {upstream.name} has these credentials already"
        raise CommandError(msg)
    return len(added.credentials)


def _from_environment(names: Iterable[str]) -> list[str]:
    values = []
    for name in names:
        if not (value := os.environ.get(name, "").strip()):
            msg = f"the variable {name} is not set"
            raise CommandError(msg)
        values.append(value)
    return values
