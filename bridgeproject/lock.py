"""One `up` for one data directory: a lock that the system drops when its holder dies, however it dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AlreadyRunning(Exception):
    """Another process holds the data directory."""


def is_up(data_dir: Path) -> bool:
    """Tell whether an `up` runs on the data directory."""
    try:
        with (data_dir / "up.lock").open(encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data directory.

    Raises:
        AlreadyRunning: Another process holds it; the message names its pid.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "up.lock").open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            msg = (
                f"Bridge is already up on {data_dir} (pid {file.read().strip() or 'unknown'}). "
                "Stop it first, or give this one a --data-dir of its own."
            )
            raise AlreadyRunning(msg) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
