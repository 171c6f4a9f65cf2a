"""Servers on one data directory keep the numbers of their workers apart."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bridgeproject.server import _share_metrics
from bridgeproject.supervisor import SHARED_METRICS

SERVERS = 40


def test_servers_that_start_at_once_clear_away_none_of_each_other(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR = tmp_path
    monkeypatch.setenv(SHARED_METRICS, "")
    (tmp_path / "metrics" / "ended").mkdir(parents=True)

    with ThreadPoolExecutor(SERVERS) as servers:
        for started in [servers.submit(_share_metrics) for _ in range(SERVERS)]:
            started.result()

    assert len(list((tmp_path / "metrics").iterdir())) == SERVERS
