"""What an upstream says of a failure, in whichever of the many shapes."""

from dataclasses import dataclass
from typing import Any

from translator.core.loose_json import loads, mend_all
from translator.core.masking import is_html

__all__ = ["ErrorReport", "read_body", "report_of"]

#: Error bodies longer than this are cut before they are read.
MAX_BODY_BYTES = 64 * 1024
#: Objects within objects, as in `{"error": {"error": {..}}}`.
MAX_WRAPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """The error object, flattened."""

    #: The upstream's words, unmasked; empty when there are none.
    text: str = ""
    #: `code` and `type`, lower case: what machines are meant to read.
    words: frozenset[str] = frozenset()
    #: An HTTP status that stands in the body, or None.
    status: int | None = None
    #: The innermost error object.
    body: dict[str, Any] | None = None
    is_html: bool = False


def read_body(body: bytes) -> ErrorReport:
    """Return what an error body says, JSON or not."""
    text = body[:MAX_BODY_BYTES].decode(errors="replace").strip()
    try:
        return report_of(mend_all(loads(text)))
    except ValueError:
        return ErrorReport(is_html=True) if is_html(text) else ErrorReport(text=text)


def report_of(value: Any) -> ErrorReport:
    """Return what an error says: an object, a list with one in it (Gemini), or a bare string."""
    for _ in range(MAX_WRAPS):
        match value:
            case [first, *_]:
                value = first
            case {"error": dict() | list() | str() as inner} if inner:
                value = inner
            case _:
                break
    match value:
        case str():
            return ErrorReport(text=value, is_html=is_html(value))
        case dict():
            return _report_of_object(value)
        case _:
            return ErrorReport()


def _report_of_object(error: dict[str, Any]) -> ErrorReport:
    text = _text(error)
    words = {str(error[key]).lower() for key in ("code", "type", "status") if isinstance(error.get(key), str)}
    if isinstance(metadata := error.get("metadata"), dict) and isinstance(metadata.get("error_type"), str):
        words.add(metadata["error_type"].lower())
    return ErrorReport(text=text, words=frozenset(words), status=_status(error), body=error, is_html=is_html(text))


def _text(error: dict[str, Any]) -> str:
    for key in ("message", "detail", "msg", "error_description", "title"):
        match error.get(key):
            case str(text) if text:
                return text
            case [*items] if items:
                return "; ".join(filter(None, map(_validation_text, items)))
            case {"message": str(text)}:
                return text
    return ""


def _validation_text(item: Any) -> str:
    """Return one entry of a FastAPI server's `detail` list as `place: message`."""
    match item:
        case {"loc": [*loc], "msg": str(message)}:
            place = ".".join(str(part) for part in loc if part != "body")
            return f"{place}: {message}" if place else message
        case {"msg": str(message)} | {"message": str(message)}:
            return message
        case str():
            return item
        case _:
            return ""


def _status(error: dict[str, Any]) -> int | None:
    for key in ("code", "status", "status_code"):
        value = error.get(key)
        number = (
            int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3 else value
        )
        if isinstance(number, int) and 400 <= number <= 599:
            return number
    return None
