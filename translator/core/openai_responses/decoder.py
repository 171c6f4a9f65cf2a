"""An upstream's Responses answer, streamed or whole, to events.

Renamed by `chunks`, and from there on read like a chat/completions answer: same repairs, same errors, same end.
"""

from collections.abc import Callable, Iterator
from typing import Any

from translator.core.answer import AnswerContext
from translator.core.masking import header_value
from translator.core.openai_chat import decoder as chat
from translator.core.openai_responses.chunks import LAST, ChunkRenamer
from translator.core.switches import Profile

__all__ = ["Decoder"]


class Decoder(chat.Decoder):
    """Read one answer: `feed` and `finish` for a stream, `feed_whole` for a JSON answer."""

    def __init__(
        self, answer: AnswerContext, *, profile: Profile, new_id: Callable[[str], str], secrets: tuple[str, ...] = ()
    ) -> None:
        """Start before the first byte; the arguments are the chat decoder's."""
        super().__init__(answer, profile=profile, new_id=new_id, secrets=secrets)
        self._renamer = ChunkRenamer()

    def _read_chunk(self, chunk: dict[str, Any]) -> None:
        """Read an event, or a whole answer; anything else is taken for what a chat upstream would send."""
        type_ = chunk.get("type")
        response = chunk.get("response", chunk)
        if self.upstream_id is None and isinstance(response, dict) and response.get("object") == "response":
            self.upstream_id = header_value(response.get("id"), self._secrets)
        if chunk.get("object") == "response" and "output" in chunk:
            self._read_renamed(self._renamer.rename_whole(chunk))
        elif isinstance(type_, str) and "choices" not in chunk:
            self._read_renamed(self._renamer.rename(chunk))
            if type_ in LAST and not self.is_done:
                self._end()
        else:
            super()._read_chunk(chunk)

    def _read_renamed(self, chunks: Iterator[dict[str, Any]]) -> None:
        for chunk in chunks:
            if not self.is_done:
                super()._read_chunk(chunk)
