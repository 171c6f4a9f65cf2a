"""Run a program of the project as a process of its own, and stop it by its pid."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

#: A program that hasn't said its line by then is killed. Long, as all times here: a busy machine is no fault.
START_WITHIN_S = 300
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A process that said that it is there."""

    process: subprocess.Popen[str]
    #: What it said up to then.
    text: str
    log: Path

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0].strip()

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, *, within_s: float = 120) -> int:
        """Ask it to end, insist when it doesn't, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(60)
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()


def start(
    arguments: Sequence[str], *, log: Path, environment: dict[str, str] | None = None, until: str = ""
) -> Running:
    """Start `python ARGUMENTS...` in the project and wait for its first line, or the one that begins with `until`.

    Args:
        arguments: A file or `-m` and a module, then its own arguments.
        log: Gets what it writes to stderr.
        environment: Laid over our own.
        until: How the line begins that says that it is there.

    Raises:
        RuntimeError: It ended without that line, or said nothing for long.
    """
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    impatience = Timer(START_WITHIN_S, process.kill)
    impatience.start()
    text = ""
    try:
        for line in process.stdout:
            text += line
            if line.startswith(until):
                return Running(process=process, text=text, log=log)
    except BaseException:
        process.kill()
        process.wait(60)
        process.stdout.close()
        raise
    finally:
        impatience.cancel()
    status = Running(process=process, text=text, log=log).stop()
    msg = f"{arguments[0]} ended with status {status}: {log.read_text(encoding='utf-8')[-2000:]}"
    raise RuntimeError(msg)
