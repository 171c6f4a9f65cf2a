"""Stop sequences that the upstream was not asked for, or leaves in the text: the text is cut here."""

import re
from collections.abc import Sequence

__all__ = ["StopCutter"]


class StopCutter:
    """Pass text on up to the first stop sequence, and hold back what may become one."""

    def __init__(self, sequences: Sequence[str]) -> None:
        """Start before the first text; empty sequences never fire."""
        self._sequences = [sequence for sequence in sequences if sequence]
        self._pattern = re.compile("|".join(map(re.escape, self._sequences)) or r"(?!)")
        self._held = ""
        #: The sequence that fired, or None.
        self.fired: str | None = None
        #: Characters that came after it.
        self.dropped = 0

    def feed(self, text: str) -> str:
        """Return what may be passed on."""
        if self.fired is not None:
            self.dropped += len(text)
            return ""
        text = self._held + text
        if found := self._pattern.search(text):
            self.fired, self._held = found.group(), ""
            self.dropped = len(text) - found.end()
            return text[: found.start()]
        at = self._possible_start(text)
        self._held = text[at:]
        return text[:at]

    def flush(self) -> str:
        """Return what was held back: it became no stop sequence."""
        held, self._held = self._held, ""
        return held

    def _possible_start(self, text: str) -> int:
        """Return where a stop sequence may have begun; the end of the text when none has."""
        return min((_overlap(text, sequence) for sequence in self._sequences), default=len(text))


def _overlap(text: str, sequence: str) -> int:
    at = text.find(sequence[0], max(0, len(text) - len(sequence) + 1))
    while at >= 0 and not sequence.startswith(text[at:]):
        at = text.find(sequence[0], at + 1)
    return len(text) if at < 0 else at
