"""A model that repeats itself for ever inside a call takes the reader no longer for each character."""

import re
import time

import pytest

from translator.core.emulation import loose_lexer, prose, region

SHORT, LONG = 4_000, 20_000
#: Five times the text may take five times as long; what goes over it again and again takes twenty-five times.
TIMES_MAX = 12
#: What is sooner done says nothing about how it grows, in seconds.
NOTICED_S = 0.05
PIECES = ["\n", " ", "\t", "\r\n", "\u2028", " \n", "a", "a.b", "_", "0", '"', "'", "\\", '\\"', '",', ",", ", ", ",\n", "`", "```", "{", "}", "} ", "[", "a: ", '"a": ', "<", "<a"]  # fmt: skip
PATTERNS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": pattern
    for module in (loose_lexer, prose, region)
    for name, pattern in vars(module).items()
    # Names are looked for in a bounded piece of text.
    if isinstance(pattern, re.Pattern) and not name.startswith("NAMED")
}


def timed_s(pattern: re.Pattern[str], text: str) -> float:
    """Return how long the uses take, of CPU, that these modules make of a pattern."""
    began = time.thread_time()
    for end in ("", "x", '"x'):
        pattern.match(text + end)
        pattern.fullmatch(text + end)
    return time.thread_time() - began


@pytest.mark.parametrize("name", PATTERNS)
def test_a_long_run_is_gone_over_once(name: str) -> None:
    pattern, slow = PATTERNS[name], {}
    for piece in PIECES:
        short_s = timed_s(pattern, piece * (SHORT // len(piece)))
        if short_s * TIMES_MAX > NOTICED_S:
            # The best of some: whatever else the machine does only makes it longer.
            long_s = min(timed_s(pattern, piece * (LONG // len(piece))) for _ in range(3))
            if long_s > max(NOTICED_S, short_s * TIMES_MAX):
                slow[piece] = (short_s, long_s)

    assert slow == {}
