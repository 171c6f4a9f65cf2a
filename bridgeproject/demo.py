"""The scripted upstream beside the server, so that everything can be tried without a provider's key."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.management import CommandError


@contextmanager
def running_demo(*, wanted: bool) -> Iterator[str | None]:
    """Run the scripted upstream in a process of its own and give its base URL; None when it isn't wanted.

    The process ends with its standard input, so it never outlives us.
    """
    if not wanted:
        yield None
        return
    command = [sys.executable, "-m", "demo.upstream", "--port", "0", "--until-stdin-closes"]
    with subprocess.Popen(  # noqa: S603  (our own module)
        command, cwd=settings.BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None  # noqa: S101  (asked for above)
        first_line = process.stdout.readline()
        if not first_line.startswith("listening on "):
            msg = f"the scripted upstream didn't start: {first_line.strip()!r}"
            raise CommandError(msg)
        try:
            yield first_line.removeprefix("listening on ").strip()
        finally:
            process.terminate()
