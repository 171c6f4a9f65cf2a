"""Pass a stream of events on in whole frames, its bytes unchanged.

A client that reads half a frame, and then an error, fails on the half; so the half waits for its end.
"""

from translator.core.errors import UpstreamProtocolError
from translator.core.sse import MAX_FRAME_BYTES, TOO_LONG, SSEDecoder, SSEFrame

__all__ = ["CompleteFrames"]

ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n")
LONGEST_END = 4


class CompleteFrames:
    """Hold back the beginning of a frame until the rest of it comes."""

    def __init__(self) -> None:
        """Start before the first byte."""
        self._held = bytearray()
        self._sse = SSEDecoder()

    def feed(self, data: bytes) -> tuple[bytes, list[SSEFrame]]:
        """Return all bytes up to the end of the last frame that is complete, and the frames in them.

        Raises:
            UpstreamProtocolError: A frame is too long.
        """
        start = max(0, len(self._held) - LONGEST_END + 1)
        self._held += data
        at = max(_end(self._held, mark, start) for mark in ENDS)
        complete = bytes(self._held[:at])
        del self._held[:at]
        frames = self._sse.feed(complete)
        if self._sse.error is not None:
            raise self._sse.error
        if len(self._held) > MAX_FRAME_BYTES:
            raise UpstreamProtocolError(TOO_LONG)
        return complete, frames

    def close(self) -> tuple[bytes, list[SSEFrame]]:
        """Return what is held at the end of the stream, if it is a frame that lacks its blank line only."""
        frames = self._sse.feed(bytes(self._held)) + self._sse.close()
        rest = bytes(self._held) + b"\n\n" if frames else b""
        self._held.clear()
        return rest, frames


def _end(data: bytearray, mark: bytes, start: int) -> int:
    at = data.rfind(mark, start)
    return 0 if at < 0 else at + len(mark)
