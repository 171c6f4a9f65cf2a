"""A process that does what a gateway's worker does with the ledger, as fast as it can, until it is killed.

    python -m tests.usage.worker DSN SPOOL_DIR TRUTH_FILE

It writes the truth as an upstream would: a line once an attempt is over there, on disk before the answer counts.
"""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import django
import orjson

django.setup()

from tests.usage.conftest import a_record  # noqa: E402
from tests.usage.test_limits import TOKEN  # noqa: E402
from usage.errors import LedgerError  # noqa: E402
from usage.ledger import Ledger, Settlement  # noqa: E402
from usage.states import Source, State  # noqa: E402

STREAMS = 50
chance = random.Random()  # noqa: S311  (a test's)


async def stream(ledger: Ledger, truth: int) -> None:
    try:
        admission = await ledger.admit(TOKEN, "claude-sonnet", 500, max_tokens=400)
    except LedgerError:
        await asyncio.sleep(0.05)
        return
    record = a_record(token_id=TOKEN.id, user_id=TOKEN.user_id)
    try:
        await ledger.open(record)
    except LedgerError:
        admission.release()
        await asyncio.sleep(0.05)
        return
    output, sent = await answer(truth, str(record.id))
    is_whole = sent == output
    ledger.settle(
        Settlement(
            id=record.id,
            state=State.OK if is_whole else State.CLIENT_GONE,
            source=Source.UPSTREAM if is_whole else Source.ESTIMATED,
            input_tokens=100,
            output_tokens=sent,
            max_tokens=400,
        )
    )
    admission.release(tokens_used=100 + sent)


async def answer(truth: int, identity: str) -> tuple[int, int]:
    """Be the upstream: note the attempt when it begins, so that a killed one is known too."""
    output = chance.randint(1, 40)
    sent = output if chance.random() < 0.8 else chance.randint(0, output - 1)
    line = {"request_id": identity, "input_tokens": 100, "output_tokens": output, "sent_tokens": sent}
    os.write(truth, orjson.dumps(line | {"usage_sent": sent == output}) + b"\n")
    await asyncio.sleep(chance.random() / 20)
    return output, sent


async def main(dsn: str, spool_dir: Path, truth_file: Path) -> None:
    truth = os.open(truth_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger = Ledger(dsn, spool_dir, "worker")
    await ledger.start()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    sys.stdout.write("ready\n")
    sys.stdout.flush()

    async def again() -> None:
        while not stopping.is_set():
            await stream(ledger, truth)

    await asyncio.gather(*(again() for _ in range(STREAMS)))
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
