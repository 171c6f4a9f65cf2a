import re
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from keys.management.commands import one_line
from keys.models import TOKEN_LIFE_MAX
from keys.networks import parse_networks
from keys.tokens import issue_token

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Command(BaseCommand):
    help = "Issue a client token and print it, this once; the user is created if needed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--name", default="default", help="to tell the tokens of a user apart")
        parser.add_argument("--expires", default="90d", metavar="90d", help="30m, 12h, 90d or 8w; a year at most")

        parser.add_argument(
            "--networks", default="", metavar="10.0.0.0/8", help="where it may be used; default: everywhere"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        life = _life(options["expires"])
        try:
            networks = parse_networks(options["networks"])
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        with one_line():
            _, plain = issue_token(_user(options["user"]), options["name"][:100], life=life, networks=networks)
        self.stdout.write(plain)


def _user(name: str) -> User:
    """Find the user, or create one that can't log in until an admin sets a password."""
    user = User.objects.filter(username=name).first()
    if user is None:
        user = User(username=name)
        user.set_unusable_password()
        user.full_clean(exclude=["password"])
        user.save()
    elif not user.is_active:
        msg = f"user {name} is not active"
        raise CommandError(msg)
    return user


def _life(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", text.strip())
    if match is None:
        msg = f"--expires takes 30m, 12h, 90d or 8w, not {text!r}"
        raise CommandError(msg)
    life = timedelta(**{UNITS[match[2]]: int(match[1])})
    if life >= TOKEN_LIFE_MAX:
        msg = "a client token lives 365 days at most"
        raise CommandError(msg)
    return life
