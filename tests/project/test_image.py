"""The container's image, as far as that can be seen without building it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def copied(into: Path) -> None:
    """Copy what the Dockerfile copies out of the repository."""
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if match := re.fullmatch(r"COPY --chown=bridge (?P<sources>.+) (?P<target>\S+)", line):
            for source in match["sources"].split():
                target = into / match["target"] / (source if match["target"] == "./" else "")
                (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, target)


def test_what_the_image_holds_is_enough_to_run(tmp_path: Path) -> None:
    copied(tmp_path)
    environment = os.environ | {
        "BRIDGE_DATA_DIR": str(tmp_path / "data"),
        "BRIDGE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "DJANGO_SETTINGS_MODULE": "bridgeproject.settings",
    }

    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
