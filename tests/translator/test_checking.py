"""The checks of a model are made a few at once."""

import asyncio

from translator.checking import AT_ONCE, check_model
from translator.core.model_checks.checks import CHECKS, Check
from translator.core.model_checks.heard import Heard

FOR_EVER_S = 60


async def test_few_checks_are_made_at_once_and_all_end_with_the_asker() -> None:
    open_now, most, left = 0, 0, 0

    async def ask(check: Check, body: bytes) -> Heard:
        nonlocal open_now, most, left
        open_now += 1
        most = max(most, open_now)
        try:
            await asyncio.sleep(0.01 if check.name == "whole" else FOR_EVER_S)
        finally:
            open_now -= 1
            left += 1
        return Heard()

    made = check_model("m", ask)
    first = await anext(made)
    await made.aclose()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert first.check.name == "whole"
    assert most == AT_ONCE
    assert open_now == 0
    assert left < len(CHECKS)
