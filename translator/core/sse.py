"""Server-sent events: bytes in, frames out.

Lines are cut on the bytes LF, CRLF and CR and nowhere else: U+2028 and its kin may stand raw inside JSON.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11-30).
Beyond it, since upstreams do so:

* a line that begins with `{` is a frame of its own (newline-delimited JSON);
* `data:` lines that are each complete JSON, with no blank line between, are a frame each.

Not done: `id` and `retry`, which nobody here would use. They and unknown fields are ignored.
"""

from dataclasses import dataclass

import orjson

from translator.core.errors import UpstreamProtocolError

__all__ = ["BOM", "DONE", "MAX_FRAME_BYTES", "SSEDecoder", "SSEFrame"]

#: The longest line, and the longest data of one frame.
MAX_FRAME_BYTES = 1024 * 1024
#: Data of the frame that ends a chat/completions stream.
DONE = b"[DONE]"
TOO_LONG = "upstream sent a frame longer than the limit"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SSEFrame:
    """One event of the stream."""

    #: Value of the `event` field; empty when there was none.
    event: str
    #: The data lines, joined by LF. Not checked to be UTF-8.
    data: bytes


class SSEDecoder:
    """Cut a byte stream into `SSEFrame`s, however the bytes are split.

    A frame whose blank line never came is dropped, as the standard asks; `close` returns it if it is complete JSON.
    """

    def __init__(self) -> None:
        """Start before the first byte."""
        #: Comment lines seen: a sign of life, nothing more.
        self.comments = 0
        #: Set once a line or a frame was too long: no further frame comes.
        self.error: UpstreamProtocolError | None = None
        self._at_start = True
        self._after_cr = False
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._event = ""
        self._data: list[bytes] = []
        self._data_size = 0
        self._is_unseparated = False

    def feed(self, chunk: bytes) -> list[SSEFrame]:
        """Return the frames that `chunk` completes, oldest first.

        Args:
            chunk: Any number of bytes; may end mid-line or mid-character.

        Raises:
            UpstreamProtocolError: A line or a frame is too long. Frames before it are returned first; then `error`
                is set, and the next call raises it.
        """
        if self.error is not None:
            raise self.error
        if self._is_one_frame(chunk):
            self._at_start = False
            return [SSEFrame("", chunk[6:-2])]
        frames: list[SSEFrame] = []
        try:
            for line in self._lines(chunk):
                self._take_line(line, frames)
        except UpstreamProtocolError as error:
            self.error = error
            if not frames:
                raise
        return frames

    def close(self) -> list[SSEFrame]:
        """Return what the end of the stream completes: an unfinished frame, if its data is complete."""
        frames: list[SSEFrame] = []
        if self.error is None:
            if self._tail:
                self._take_line(b"".join(self._tail), frames)
            if self._data and _is_complete(b"\n".join(self._data)):
                self._dispatch(frames)
        self._tail, self._data = [], []
        return frames

    def _is_one_frame(self, chunk: bytes) -> bool:
        """Tell whether a read is one whole frame of one line, as most are: it needs no cutting."""
        return (
            chunk.startswith(b"data: ")
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk.endswith(b"\n")
            and b"\r" not in chunk
            and len(chunk) <= MAX_FRAME_BYTES
            and not (self._tail or self._data or self._event or self._after_cr)
        )

    def _lines(self, chunk: bytes) -> list[bytes]:
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._tail:
            self._tail.append(lines[0])
            lines[0] = b"".join(self._tail)
            self._tail, self._tail_size = [], 0
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
            if self._tail_size > MAX_FRAME_BYTES:
                lines.append(b"".join(self._tail))
        return lines

    def _take_line(self, line: bytes, frames: list[SSEFrame]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(BOM)
        if len(line) > MAX_FRAME_BYTES:
            raise UpstreamProtocolError(TOO_LONG)
        if line.startswith(b"data:"):
            self._take_data(line[6:] if line[5:6] == b" " else line[5:], frames)
        elif not line:
            self._dispatch(frames)
        elif line.startswith(b":"):
            self.comments += 1
        elif line.startswith(b"{") and not self._data:
            frames.append(SSEFrame(self._event, line))
        else:
            self._take_field(line)

    def _take_data(self, value: bytes, frames: list[SSEFrame]) -> None:
        if self._data and len(self._data) == 1 and _is_complete(self._data[0]):
            self._is_unseparated = True
            self._dispatch(frames)
        self._data.append(value)
        self._data_size += len(value) + 1
        if self._data_size > MAX_FRAME_BYTES + 1:
            raise UpstreamProtocolError(TOO_LONG)
        if self._is_unseparated and _is_complete(value):
            self._dispatch(frames)

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"event":
            self._event = value.removeprefix(b" ").decode(errors="replace")
        elif name == b"data":
            self._data.append(b"")

    def _dispatch(self, frames: list[SSEFrame]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            frames.append(SSEFrame(self._event, data))
            self._data, self._data_size = [], 0
        self._event = ""


def _is_complete(data: bytes) -> bool:
    """Tell whether a data line needs no other: it is a JSON object, or the end mark."""
    if data.strip() == DONE:
        return True
    try:
        return isinstance(orjson.loads(data), dict)
    except orjson.JSONDecodeError:
        return False
