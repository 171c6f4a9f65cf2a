"""An upstream's whole answer, as it should be or not."""

from typing import Any

from translator.core.errors import UpstreamProtocolError
from translator.core.loose_json import loads, mend_all
from translator.core.masking import is_html
from translator.core.sse import BOM

__all__ = ["is_stream", "read_whole"]

EMPTY = "upstream returned an empty answer"
WEB_PAGE = "upstream returned HTML"
NO_OBJECT = "upstream returned no JSON object"


def is_stream(body: bytes) -> bool:
    """Tell whether the body is a stream of events, sent though none was asked for."""
    return body.removeprefix(BOM).lstrip().startswith((b"data:", b"event:", b":", b"id:", b"retry:"))


def read_whole(body: bytes) -> dict[str, Any]:
    """Return the JSON object in the body of an answer.

    Raises:
        UpstreamProtocolError: The body is empty, a web page, or anything else.
    """
    text = body.decode("utf-8-sig", errors="replace").strip()
    if not text:
        raise UpstreamProtocolError(EMPTY)
    if is_html(text):
        raise UpstreamProtocolError(WEB_PAGE)
    try:
        answer = mend_all(loads(text))
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UpstreamProtocolError(NO_OBJECT)
    return answer
