"""What an upstream says of a failure, in whichever of the many shapes."""

from dataclasses import dataclass
from typing import Any

from translator.core.loose_json import loads, mend_all
from translator.core.masking import is_html

__all__ = ["ErrorReport", "is_error", "read_body", "report_of"]

#: Error bodies longer than this are cut before they are read.
MAX_BODY_BYTES = 64 * 1024
#: Objects within objects, as in `{"error": {"error": {..}}}`.
MAX_WRAPS = 4
#: Where the words stand, best place first.
TEXT_KEYS = ("message", "detail", "msg", "error_description", "error_msg", "error_message", "status_msg", "Message", "errors", "title")  # fmt: skip
#: Codes that mean that nothing is wrong.
GOOD_CODES = (None, "", 0, "0", 200, "200")


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
    return _read_text(body[:MAX_BODY_BYTES].decode("utf-8-sig", errors="replace").strip())


def report_of(value: Any) -> ErrorReport:
    """Return what an error says: an object, a list with one in it (Gemini), or a bare string."""
    for _ in range(MAX_WRAPS):
        match value:
            case [first, *_]:
                value = first
            case {"error": dict() | list() | str() as inner} if inner:
                value = inner
            case {"detail": dict() as inner} | {"base_resp": dict() as inner} if inner:
                value = inner
            case _:
                break
    match value:
        case str() if value.startswith("{") and (said := _read_text(value)).text not in ("", value):
            return said
        case str():
            return ErrorReport(text=value, is_html=is_html(value))
        case dict():
            return _report_of_object(value)
        case _:
            return ErrorReport()


def is_error(body: dict[str, Any]) -> bool:
    """Tell whether an object that stands where an answer should is an error: it says so, or has words beside a code."""
    match body:
        case {"object": "error"}:
            return True
        case {"detail": detail} if detail:
            return True
        case {"base_resp": {"status_code": code}}:
            return code not in GOOD_CODES
        case _:
            has_code = any(body.get(key) not in GOOD_CODES for key in ("code", "error_code"))
            return bool(_text(body)) and (has_code or _status(body) is not None)


def _read_text(text: str) -> ErrorReport:
    try:
        return report_of(mend_all(loads(text)))
    except ValueError:
        return ErrorReport(is_html=True) if is_html(text) else ErrorReport(text=text)


def _report_of_object(error: dict[str, Any]) -> ErrorReport:
    text = _text(error)
    words = {str(error[key]).lower() for key in ("code", "type", "status") if isinstance(error.get(key), str)}
    if text.startswith("{") and (inner := _read_text(text)).text not in ("", text):
        # A proxy's message may be the whole body of what stands behind it.
        text, words = inner.text, words | inner.words
    match error.get("metadata"):
        case {"error_type": str(word)}:
            words.add(word.lower())
        case {"raw": str(raw)}:
            # OpenRouter: "Provider returned error", and the provider's own words.
            text = ": ".join(filter(None, (text, _read_text(raw).text)))
    return ErrorReport(text=text, words=frozenset(words), status=_status(error), body=error, is_html=is_html(text))


def _text(error: dict[str, Any]) -> str:
    for key in TEXT_KEYS:
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
