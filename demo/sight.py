"""What is to be seen in a picture: the colour of its first dot, in words.

Source: https://www.w3.org/TR/png-3/ (read 2026-11).
Not done: other formats than PNG, palettes, other depths than eight bits, interlacing.
"""

import zlib
from base64 import b64decode

MAGIC = b"\x89PNG\r\n\x1a\n"
#: No picture is unpacked further.
MAX_PIXELS_BYTES = 64 * 1024
#: Kinds of colour with red, green and blue in a dot's first three bytes.
RGB_KINDS = (2, 6)
NAMES = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "red": (255, 0, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "grey": (128, 128, 128),
}


def colour_of(image: str) -> str | None:
    """Name the colour of a PNG in base64; None for what can't be read."""
    try:
        dot = _first_dot(b64decode(image))
    except (ValueError, zlib.error):
        return None
    if dot is None:
        return None
    return min(NAMES, key=lambda name: sum((one - other) ** 2 for one, other in zip(NAMES[name], dot, strict=True)))


def _first_dot(png: bytes) -> bytes | None:
    """Return red, green and blue; the first dot is the same under each of PNG's filters."""
    if not png.startswith(MAGIC) or len(png) < 33 or png[24] != 8 or png[25] not in RGB_KINDS or png[28]:
        return None
    packed, at = b"", len(MAGIC)
    while at + 8 <= len(png):
        size, kind = int.from_bytes(png[at : at + 4]), png[at + 4 : at + 8]
        packed += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    pixels = zlib.decompressobj().decompress(packed, MAX_PIXELS_BYTES)
    return pixels[1:4] if len(pixels) >= 4 else None
