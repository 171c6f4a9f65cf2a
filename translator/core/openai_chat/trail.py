"""The text of an answer that may be gone on with: what the model wrote, and where a follow-up joins it.

Kept is the model's own text, tool calls in it included, since that is what it must see to go on. A follow-up may repeat
the end of that text, or all of it; what it repeats is dropped. A short likeness is none: words begin alike, and lines of
dashes look alike everywhere.
"""

__all__ = ["Trail"]

#: Characters that a follow-up may repeat of the end; of fewer than the least, or of all too few different ones, it
#: can't be told that they are a repetition.
MOST, LEAST, LEAST_DIFFERENT = 64, 8, 4


class Trail:
    """Keeps the text, and drops what a follow-up repeats of it."""

    def __init__(self) -> None:
        """Start before the first character."""
        #: Whether the model has added anything in this round.
        self.has_grown = False
        self._parts: list[str] = []
        self._seam: _Seam | None = None

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self._parts)

    def feed(self, text: str) -> str:
        """Take what the model wrote; return what it adds."""
        return self._grow(self._seam.feed(text) if self._seam else text)

    def flush(self) -> str:
        """Return what was held, as it might have been a repetition: nothing follows."""
        return self._grow(self._seam.flush()) if self._seam else ""

    def resume(self) -> None:
        """Begin a follow-up."""
        self._seam = _Seam(self.text)
        self.has_grown = False

    def _grow(self, text: str) -> str:
        if text:
            self._parts.append(text)
            self.has_grown = True
        return text


class _Seam:
    """Finds how much of the end of a text its follow-up repeats."""

    def __init__(self, text: str) -> None:
        self._may_repeat = sorted(_endings(text), key=len, reverse=True)
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what is certainly new."""
        if not self._may_repeat:
            return text
        self._held += text
        if any(len(end) > len(self._held) and end.startswith(self._held) for end in self._may_repeat):
            return ""
        return self.flush()

    def flush(self) -> str:
        """Return what is new of what was held."""
        repeated = next((end for end in self._may_repeat if self._held.startswith(end)), "")
        new, self._held, self._may_repeat = self._held[len(repeated) :], "", []
        return new


def _endings(text: str) -> set[str]:
    """Return the endings of a text that may be repeated, with and without the white space after the last word.

    That white space alone is one too: a text that is sent as the beginning of an answer loses it.
    """
    said = text.rstrip()
    space = text[len(said) :]
    endings = {said[-size:] for size in range(LEAST, min(MOST, len(said)) + 1)}
    endings = {ending for ending in endings | {said} if len(ending) >= LEAST and len(set(ending)) >= LEAST_DIFFERENT}
    return {each for each in (space, *endings, *(ending + space for ending in endings)) if each}
