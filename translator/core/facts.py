"""What the operator knows of one upstream model; None where nobody said."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts of an upstream model that steer how a request is written for it."""

    #: The upstream model: the name sent upstream.
    name: str
    #: Tokens that fit in the window, input and output together.
    context_window: int | None = None
    #: Most output tokens the upstream grants; a larger `max_tokens` is lowered to it.
    max_output_tokens: int | None = None
    #: Takes images; None follows the profile.
    vision: bool | None = None
    #: Takes PDF files; None follows the profile.
    pdf: bool | None = None
    #: Reasons before it answers; None follows the profile.
    reasoning: bool | None = None
    #: Speaks tool calls itself, or only through the prompt.
    tools: Literal["native", "emulated"] = "native"
