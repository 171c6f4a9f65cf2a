"""Requests to upstreams that speak the Messages API themselves: the client's body, for another model name.

Nothing else is changed, so that features the gateway has never heard of work from the day they exist.
"""

import re
from collections.abc import Iterable

from translator.core.answer import AnswerContext
from translator.core.anthropic.request import MessagesRequest
from translator.core.estimate import estimate_input_tokens
from translator.core.facts import ModelFacts
from translator.core.rendered import RenderedRequest

__all__ = ["forwarded_headers", "render_request"]

#: Sent when the client names no version; Anthropic demands one.
DEFAULT_VERSION = "2023-06-01"
#: What a client may put into a header of ours.
SENDABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?")


def render_request(
    request: MessagesRequest, *, model: ModelFacts, input_estimate: int | None = None
) -> RenderedRequest:
    """Return the client's body for the upstream model, with the context its usage is read with.

    Args:
        request: The client's request; it is not changed.
        model: The upstream model.
        input_estimate: Input tokens, if they have been estimated before; None estimates them now.
    """
    answer = AnswerContext(
        model=request.model,
        stop_sequences=request.stop_sequences,
        max_tokens=request.max_tokens,
        show_thinking=request.thinking.is_on,
        omit_thinking_text=request.thinking.omit_text,
        input_estimate=estimate_input_tokens(request) if input_estimate is None else input_estimate,
    )
    return RenderedRequest(body={**request.body, "model": model.name}, answer=answer)


def forwarded_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return which of the client's headers go on: the API's version and its betas, and nothing else.

    Args:
        headers: Names and values as the client sent them; a name may come more than once. Values that no header
            should carry are left out.
    """
    pairs = [(name.lower(), stripped) for name, value in headers if SENDABLE.fullmatch(stripped := value.strip())]
    betas = [value for name, value in pairs if name == "anthropic-beta"]
    versions = [value for name, value in pairs if name == "anthropic-version"]
    sent = {"anthropic-version": versions[0] if versions else DEFAULT_VERSION}
    return {**sent, "anthropic-beta": ",".join(betas)} if betas else sent
