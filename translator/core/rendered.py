"""What a request becomes for an upstream."""

from dataclasses import dataclass
from typing import Any

from translator.core.answer import AnswerContext

__all__ = ["RenderedRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedRequest:
    """A request as one upstream takes it, and what its answer must be read with."""

    #: The JSON object to send.
    body: dict[str, Any]
    answer: AnswerContext
    #: What had to be left out or repaired, as short codes, each once.
    notes: tuple[str, ...] = ()
