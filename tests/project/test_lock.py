import subprocess
import sys

import pytest

from bridgeproject.lock import AlreadyRunning, is_up, only_one

HOLD = "import sys, time; from pathlib import Path; from bridgeproject.lock import only_one\nwith only_one(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


def test_a_second_one_is_told_who_holds_the_directory(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"

        with pytest.raises(AlreadyRunning, match=f"pid {first.pid}"), only_one(tmp_path):
            pass
        assert is_up(tmp_path)

        first.kill()
    assert not is_up(tmp_path)
    assert not is_up(tmp_path / "never")


def test_a_killed_holder_leaves_nothing_behind(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        first.stdout.readline()
        first.kill()

    with only_one(tmp_path):
        pass
