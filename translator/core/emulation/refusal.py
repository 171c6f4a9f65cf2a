"""Refusals by which an upstream says that a model calls no tools: what an operator does about them is to emulate."""

import re

__all__ = ["TOOLS_REFUSED", "refuses_tools"]

#: The note on an attempt that was refused so.
TOOLS_REFUSED = "tools_refused"

#: Words of Ollama, OpenRouter, vLLM, Groq and Hugging Face, collected in November 2026.
REFUSAL = re.compile(
    r"(?:not|n't) (?:currently )?support (?:for )?[`'\"]?(?:tools?\b|tool[ -_](?:us|call)|function[ -_]call)"
    r"|[`'\"]?\b(?:tools?|tool (?:use|calls?|calling|choice)|function calling)[`'\"]? (?:is|are) (?:not|un)[ -]?(?:supported|available)"
    r"|no endpoints found that support tool use"
    r"|requires --enable-auto-tool-choice",
    re.IGNORECASE,
)


def refuses_tools(status: int, text: str) -> bool:
    """Tell whether an upstream's refusal means that the model takes no tools."""
    return status in (400, 404, 422, 501) and REFUSAL.search(text) is not None
