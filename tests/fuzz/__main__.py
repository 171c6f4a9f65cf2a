"""Fuzz the half of Bridge that reads strangers' bytes: `uv run python -m tests.fuzz --seconds 600`.

A failure prints the target and the input, and ends the run with status 1; `--seed` repeats one.
"""

import argparse
import math
import sys
import time

from tests.fuzz.mutation import dice_of, mutated
from tests.fuzz.targets import TARGETS

#: No input of a few kilobytes may take longer than this; a hang shows as one that does.
SLOWEST_S = 2.0


def fuzz(seed: int, targets: list[str], *, seconds: float = math.inf, inputs: float = math.inf) -> int:
    """Run all targets in turn for so long, or with so many inputs; return how many were tried.

    Raises:
        AssertionError: A target failed; its notes hold the input.
    """
    dice, tried, until = dice_of(seed), 0, time.monotonic() + seconds
    while tried < inputs and time.monotonic() < until:
        for name in targets:
            data = mutated(TARGETS[name][1], dice)
            try_one(name, data, dice.randrange(2**32))
            tried += 1
    return tried


def try_one(name: str, data: bytes, seed: int) -> None:
    began = time.process_time()
    try:
        TARGETS[name][0](data, dice_of(seed))
        took_s = time.process_time() - began
        assert took_s < SLOWEST_S, f"{took_s:.1f} s of CPU"
    except Exception as exc:
        msg = f"{name} failed on {data!r}, dice {seed}: {type(exc).__name__}: {exc}"
        raise AssertionError(msg) from exc


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    options = parser.parse_args()
    tried = fuzz(options.seed, options.targets or list(TARGETS), seconds=options.seconds)
    sys.stdout.write(f"{tried} inputs, none of them harmful; seed {options.seed}\n")


if __name__ == "__main__":
    main()
