"""What makes an installation fit for production is checked, and what makes it unfit is refused."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway import MakeGateway
from tests.processes import ROOT

PRODUCTION = {
    "BRIDGE_HTTPS": "1",
    "BRIDGE_BEHIND_PROXY": "1",
    "BRIDGE_REQUIRE_2FA": "1",
    "BRIDGE_ALLOWED_HOSTS": "bridge.example",
}


def manage(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"DJANGO_SETTINGS_MODULE": "bridgeproject.settings", "BRIDGE_DATA_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=os.environ | known | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def check_deploy(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return manage(folder, "check", "--deploy", "--fail-level", "WARNING", **environment)


def test_a_deployment_by_the_book_has_nothing_to_complain_of(tmp_path: Path) -> None:
    done = check_deploy(tmp_path, **PRODUCTION)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("missing", ["BRIDGE_HTTPS", "BRIDGE_REQUIRE_2FA"])
def test_what_is_missing_is_complained_of(tmp_path: Path, missing: str) -> None:
    assert check_deploy(tmp_path, **PRODUCTION | {missing: "0"}).returncode != 0


@pytest.mark.parametrize("command", ["serve", "check", "up"])
def test_debug_pages_are_refused_in_production(tmp_path: Path, command: str) -> None:
    done = manage(tmp_path, command, **PRODUCTION, BRIDGE_DEBUG="1")

    assert done.returncode != 0
    assert "BRIDGE_DEBUG" in done.stderr


def test_no_process_that_serves_leaves_its_memory_in_a_file(make_gateway: MakeGateway) -> None:
    two = make_gateway(workers=2)

    for pid in two.worker_pids():
        assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)


def test_a_migration_gives_up_rather_than_hold_everybody_up(make_gateway: MakeGateway) -> None:
    running = make_gateway()
    with running.connect() as other:
        other.autocommit = False
        other.execute("LOCK TABLE keys_clienttoken IN ACCESS SHARE MODE")
        # It would wait for as long as the lock is held, which is until it has given up.
        with pytest.raises(AssertionError, match="lock timeout"):
            running.command("migrate", "keys", "0005")

    running.stop()  # else what it reads at the wrong moment may hold the next ones up
    running.command("migrate", "keys", "0005")
    running.command("migrate")
