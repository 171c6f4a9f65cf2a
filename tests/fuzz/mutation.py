"""Inputs that are nearly right: known ones, cut, joined, repeated and spoilt at random."""

from collections.abc import Callable, Sequence
from random import Random

__all__ = ["dice_of", "mutated"]

#: What breaks parsers.
PIECES = (
    b"\n", b"\r", b"\r\n", b"\n\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xf0\x9f", b":", b": ",
    b"data:", b"data: [DONE]\n\n", b"event: error\n", b"event: message_stop\ndata: {}\n\n", b"{", b"}", b"[", b"]",
    b'"', b"\\", b"\\u0000", b"\\ud83d", b"null", b"true", b"-1", b"1e999", b"9" * 30, b"[" * 300, b'{"a":' * 300,
    b'"index":0', b'"id":""', b'"finish_reason":"stop"', b'"finish_reason":"length"', b'"content":[]', b'"usage":null',
    b'"error":{}', b"<think>", b"###",
)  # fmt: skip
LONGEST = 20_000


def dice_of(seed: int) -> Random:
    """Return dice that fall the same way for the same seed."""
    return Random(seed)  # noqa: S311  (a run must be repeatable)


def mutated(seeds: Sequence[bytes], dice: Random) -> bytes:
    """Return a known input after a few accidents."""
    data = dice.choice(seeds)
    for _ in range(dice.choice((0, 1, 1, 2, 3, 5, 8))):
        data = dice.choice(ACCIDENTS)(data, dice, seeds)[:LONGEST]
    return data


def _place(data: bytes, dice: Random) -> int:
    return dice.randint(0, len(data))


def _cut_off(data: bytes, dice: Random, seeds: Sequence[bytes]) -> bytes:
    return data[: _place(data, dice)]


def _cut_out(data: bytes, dice: Random, seeds: Sequence[bytes]) -> bytes:
    at = _place(data, dice)
    return data[:at] + data[at + dice.choice((1, 1, 2, 10, 100)) :]


def _spoil(data: bytes, dice: Random, seeds: Sequence[bytes]) -> bytes:
    at = _place(data, dice)
    return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]


def _insert(data: bytes, dice: Random, seeds: Sequence[bytes]) -> bytes:
    at = _place(data, dice)
    return data[:at] + dice.choice(PIECES) + data[at:]


def _repeat(data: bytes, dice: Random, seeds: Sequence[bytes]) -> bytes:
    start = _place(data, dice)
    part = data[start : start + dice.choice((1, 5, 50, 500))]
    return data[:start] + part * dice.choice((2, 2, 3, 20)) + data[start:]


def _join(data: bytes, dice: Random, seeds: Sequence[bytes]) -> bytes:
    other = dice.choice(seeds)
    return data[: _place(data, dice)] + other[_place(other, dice) :]


def _shuffle_frames(data: bytes, dice: Random, seeds: Sequence[bytes]) -> bytes:
    frames = data.split(b"\n\n")
    dice.shuffle(frames)
    return b"\n\n".join(frames)


ACCIDENTS: Sequence[Callable[[bytes, Random, Sequence[bytes]], bytes]] = (
    _cut_off, _cut_out, _spoil, _spoil, _insert, _insert, _repeat, _join, _shuffle_frames,
)  # fmt: skip
