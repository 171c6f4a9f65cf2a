"""The bytes of an upstream's stream, to the JSON objects in it."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from translator.core.errors import UpstreamProtocolError
from translator.core.loose_json import loads
from translator.core.openai_chat.halves import HalfJoiner
from translator.core.sse import DONE, SSEDecoder, SSEFrame

__all__ = ["END_MARK", "ChunkReader"]

#: Stands for the `[DONE]` mark among the chunks.
END_MARK: dict[str, Any] = {}
#: Frames in a row that are no JSON, before the stream is given up.
MAX_BAD_FRAMES = 3
MALFORMED = "upstream sent malformed data"


class ChunkReader:
    """Read the chunks of one stream, and forgive a broken one here and there."""

    def __init__(self) -> None:
        """Start before the first byte."""
        #: What was repaired or dropped, as short codes.
        self.notes: list[str] = []
        self._sse = SSEDecoder()
        self._halves = HalfJoiner()
        self._bad_frames = 0

    @property
    def comments(self) -> int:
        """Comment lines seen: a sign of life."""
        return self._sse.comments

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the chunks that `data` completes; an error event is a chunk with an `error`.

        Raises:
            UpstreamProtocolError: A frame is too long, or too many in a row are no JSON.
        """
        yield from self._chunks(self._sse.feed(data))
        if self._sse.error is not None:
            raise self._sse.error

    def close(self) -> Iterator[dict[str, Any]]:
        """Yield what the end of the stream completes.

        Raises:
            UpstreamProtocolError: As in `feed`.
        """
        yield from self._chunks(self._sse.close())

    def _chunks(self, frames: Iterable[SSEFrame]) -> Iterator[dict[str, Any]]:
        for frame in frames:
            try:
                chunk = orjson.loads(frame.data)
            except orjson.JSONDecodeError:
                chunk = self._read_odd(frame)
            if type(chunk) is dict:
                self._bad_frames = 0
                if frame.event == "error" and "choices" not in chunk:
                    chunk = {"error": chunk.get("error") or chunk}
                yield chunk

    def _read_odd(self, frame: SSEFrame) -> Any:
        """Return what is in a frame that is no plain JSON; None when there is nothing."""
        data = frame.data.strip()
        if data.upper() == DONE:
            return END_MARK
        if frame.event == "error" and data:
            return {"error": data.decode(errors="replace")}
        if not data:
            return None
        try:
            return self._halves.join(loads(data))
        except ValueError:
            self._count_bad_frame()
            return None

    def _count_bad_frame(self) -> None:
        self.notes.append("bad_frame")
        self._bad_frames += 1
        if self._bad_frames >= MAX_BAD_FRAMES:
            raise UpstreamProtocolError(MALFORMED)
