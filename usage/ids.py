"""Ids of usage records: UUIDs of version 7, ever rising within a process.

Source: RFC 9562, sections 5.7 and 6.2 (method 1: a counter of 42 bits, seeded anew each millisecond).
The first 48 bits are the time, so a range of ids is a range of times: partitions and paging rely on it.
"""

import secrets
import time
from datetime import UTC, datetime
from uuid import UUID

_COUNTER_BITS = 42
_VERSION_AND_VARIANT = 0x7 << 76 | 0b10 << 62
#: The last second that has a date, less a day for what is reckoned from it.
_LAST_S = 253_402_300_799 - 86_400
_last_ms = 0
_counter = 0


def new_record_id() -> UUID:
    """Make an id that is greater than each one made before in this process, whatever the clock did."""
    global _last_ms, _counter
    now_ms = time.time_ns() // 1_000_000
    random = secrets.randbits(32 + _COUNTER_BITS - 1)
    if now_ms > _last_ms:
        _last_ms, _counter = now_ms, random >> 32
    else:  # the same millisecond, or a clock that was set back
        _counter += 1
    if _counter >> _COUNTER_BITS:
        _last_ms, _counter = _last_ms + 1, random >> 32
    high, low = _counter >> 30, _counter & 0x3FFFFFFF
    return UUID(int=_last_ms << 80 | _VERSION_AND_VARIANT | high << 64 | low << 32 | random & 0xFFFFFFFF)


def first_id_at(moment: datetime) -> UUID:
    """Return the bound below which no id of `moment` or later can lie."""
    return UUID(int=round(moment.timestamp() * 1000) << 80)


def moment_of(identity: UUID) -> datetime:
    """Return the time that an id carries; ids of strangers may carry any."""
    return datetime.fromtimestamp(min((identity.int >> 80) / 1000, _LAST_S), UTC)
