"""Characters whose two halves came in two chunks."""

import re
from typing import Any

from translator.core.loose_json import mend_all

__all__ = ["HalfJoiner"]

HIGH = re.compile("[\ud800-\udbff]\\Z")
LOW = re.compile("[\udc00-\udfff]")


class HalfJoiner:
    """Carry a first half at the end of one chunk's text over to the next chunk's."""

    def __init__(self) -> None:
        """Start with no half."""
        self._half = ""

    def join(self, chunk: Any) -> Any:
        """Return a chunk whose text begins with the half that was kept, and has no half at its end or elsewhere.

        Raises:
            ValueError: The chunk is nested too deep.
        """
        match chunk:
            case {"choices": [{"delta": {"content": str(text)} as delta}, *_]}:
                if LOW.match(text):
                    text = self._half + text
                half = HIGH.search(text)
                self._half = half.group() if half else ""
                delta["content"] = text.removesuffix(self._half)
        return mend_all(chunk)
