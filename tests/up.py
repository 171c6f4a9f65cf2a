"""The first command of a stranger, `manage.py up --demo` on an empty folder, as a process of its own."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it brings no types

from tests import processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """What `up` printed, and the process."""

    text: str
    running: processes.Running

    @property
    def base_url(self) -> str:
        return str(re.findall(r"ANTHROPIC_BASE_URL=(\S+)", self.text)[0])

    @property
    def token(self) -> str:
        return str(re.findall(r"ANTHROPIC_AUTH_TOKEN=(\S+)", self.text)[0])

    @property
    def login(self) -> tuple[str, str]:
        """The first administrator's name and password."""
        name, password = re.findall(r"login (\S+), password (\S+)", self.text)[0]
        return name, password


@contextmanager
def up(data_dir: Path, **settings: str) -> Iterator[Up]:
    """Run `up --demo`, with these variables, until the block ends; then stop it as Ctrl-C does."""
    arguments = ["manage.py", "up", "--demo", "--port", "0", "--data-dir", str(data_dir)]
    environment = {"DJANGO_SETTINGS_MODULE": "bridgeproject.settings", "BRIDGE_DATABASE_URL": "", "BRIDGE_DATA_DIR": ""}
    environment |= settings
    running = processes.start(arguments, log=data_dir.parent / "up.log", environment=environment, until="Ctrl-C")
    try:
        yield Up(text=running.text, running=running)
    finally:
        try:
            children = psutil.Process(running.pid).children(recursive=True)
            running.process.send_signal(signal.SIGINT)
            assert running.process.wait(120) == 0
        finally:
            running.stop()
        _, alive = psutil.wait_procs(children, timeout=60)
        assert alive == [], [one.cmdline() for one in alive]
