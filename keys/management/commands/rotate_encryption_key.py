from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from keys.ring import KeyInUse, RingIsFixed, RotationRuns, add_key, forget_old_keys, seal_anew


class Command(BaseCommand):
    help = (
        "Seal all stored secrets anew under the first key of the ring; can be interrupted and called again, and the "
        "server goes on meanwhile."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        choice = parser.add_mutually_exclusive_group()
        choice.add_argument("--new", action="store_true", help="first put a new key into the ring's file")
        choice.add_argument(
            "--forget-old", action="store_true", help="only drop the old keys, after every process knows the new one"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(_forget() if options["forget_old"] else _rotate(with_new=options["new"]))
        except (RingIsFixed, RotationRuns, KeyInUse) as exc:
            raise CommandError(str(exc)) from exc


def _rotate(*, with_new: bool) -> str:
    if with_new:
        add_key()
    rotated = seal_anew()
    if rotated.undecryptable:
        msg = f"sealed {rotated.sealed_anew} anew; no key of the ring opens: {', '.join(rotated.undecryptable)}"
        raise CommandError(msg)
    return f"Sealed {rotated.sealed_anew} secrets anew under {rotated.key_id}; no other key is in use"


def _forget() -> str:
    return f"Dropped from the ring: {', '.join(forget_old_keys()) or 'nothing'}"
