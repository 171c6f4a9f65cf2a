"""The text of an answer as far as it came, how far it was read, and what of it may have to be read again."""

__all__ = ["Source", "Tape"]


class Tape:
    """Keeps the text from one place on, for as long as it may still turn out to be something else."""

    def __init__(self) -> None:
        """Start switched off."""
        #: Characters kept from earlier pieces of the text.
        self.size = 0
        #: Whether it goes on from where it was started, whatever it is told.
        self.is_pinned = False
        self._parts: list[str] = []
        self._start: int | None = None

    def start(self, at: int) -> None:
        """Keep the text from `at` on, and forget what was kept; nothing, where it is pinned."""
        if self.is_pinned:
            return
        self._parts, self.size, self._start = [], 0, at

    def stop(self) -> None:
        """Keep nothing; unless it is pinned."""
        if self.is_pinned:
            return
        self._parts, self.size, self._start = [], 0, None

    def save(self, text: str, at: int) -> None:
        """Keep what was read of `text`, which goes."""
        if self._start is not None:
            part = text[self._start : at]
            self._parts.append(part)
            self.size += len(part)
            self._start = 0

    def kept(self, text: str, at: int) -> str:
        """Return the text from where it was started up to `at`."""
        return self.earlier + text[self.start_in(at) : at]

    @property
    def earlier(self) -> str:
        """What of it stood in earlier pieces of the text."""
        return "".join(self._parts)

    def start_in(self, at: int) -> int:
        """Return where the rest of it begins in the piece at hand, of which all before `at` was read."""
        return at if self._start is None else self._start


class Source:
    """The text that readers share."""

    def __init__(self) -> None:
        """Start with no text."""
        self.text = ""
        #: What stands before is read.
        self.at = 0
        #: Whether no more will come.
        self.is_last = False
        #: The text since a call may have begun.
        self.call = Tape()
        #: The text since its arguments began, until some of them are sent.
        self.input = Tape()

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to read."""
        return self.at == len(self.text)

    def add(self, text: str) -> None:
        """Add more text, and let go what was read."""
        self.call.save(self.text, self.at)
        self.input.save(self.text, self.at)
        self.text = self.text[self.at :] + text
        self.at = 0

    def go_back(self) -> int:
        """Go back to where a call seemed to begin; return how many characters were read since."""
        earlier, start = self.call.earlier, self.call.start_in(self.at)
        read = len(earlier) + self.at - start
        # Only what has gone is put together again: a text with many such places stays cheap.
        self.text, self.at = (earlier + self.text[start:], 0) if earlier else (self.text, start)
        self.call.stop()
        self.input.stop()
        return read
