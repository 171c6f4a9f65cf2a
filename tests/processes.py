"""Run a program of the project as a process of its own, and stop it by its pid."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A process that said its first line."""

    process: subprocess.Popen[str]
    first_line: str
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, *, within_s: float = 15) -> int:
        """Ask it to end, insist when it doesn't, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(5)
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()


def start(arguments: Sequence[str], *, log: Path, environment: dict[str, str] | None = None) -> Running:
    """Start `python ARGUMENTS...` in the project and wait for its first line; the log gets its stderr.

    Raises:
        RuntimeError: It ended without a line.
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
    line = process.stdout.readline().strip()
    running = Running(process=process, first_line=line, log=log)
    if not line:
        status = running.stop()
        msg = f"{arguments[0]} ended with status {status}: {log.read_text(encoding='utf-8')[-2000:]}"
        raise RuntimeError(msg)
    return running
