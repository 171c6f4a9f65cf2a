"""A failing test shows what its gateway logged."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.gateway import RunningGateway

LOG_CHARACTERS = 5000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, Any, Any]:
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, RunningGateway):
                report.sections.append(("the gateway's log", value.log()[-LOG_CHARACTERS:]))
    return report
