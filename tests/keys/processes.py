"""What the tests of the pool in real processes have in common."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.upstream import ScriptedUpstream


def key_names(keys: Iterable[str]) -> dict[str, str]:
    """Give the keys by the digest under which the scripted upstream knows them."""
    return {hashlib.sha256(key.encode()).hexdigest(): key for key in keys}


def calls_by_key(scripted: ScriptedUpstream, keys: Sequence[str]) -> Counter[str]:
    names = key_names(keys)
    return Counter(names[attempt["key_sha256"]] for attempt in scripted.attempts())


def at_once(count: int, work: Callable[[int], Any], *, threads: int = 20) -> list[Any]:
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(work, range(count)))


def until(condition: Callable[[], Any], *, within_s: float, every_s: float = 0.1) -> Any:
    """Wait for a condition and return what it gave; fail when it doesn't hold in time."""
    give_up = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < give_up, f"not within {within_s} s"
        time.sleep(every_s)
    return found
