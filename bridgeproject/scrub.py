"""The log's formatter: no secret leaves with a line, whatever put it there.

Masked are the credentials this process holds, by value, and everything that looks like a secret. The formatted line
is scrubbed, so that tracebacks and the arguments of other libraries' messages are covered too.
"""

import logging
import re
from collections.abc import Callable, Iterable

MASK = "[secret]"
#: Our own tokens, bearer headers, cookies that log somebody in, and the forms of well-known providers' keys.
LOOKS_SECRET = re.compile(
    r"brg_[0-9A-Za-z]{8,}"
    r"|(?i:bearer )[^\s'\",\\]{8,}"
    r"|\b(?:sessionid|csrftoken)=[^\s'\";,\\]+"
    r"|\b(?:sk|gsk|nvapi|xai|pplx|hf|AIza)[-_][0-9A-Za-z_-]{12,}"
)


class ScrubbingFormatter(logging.Formatter):
    """Formats a line and masks the secrets in it."""

    #: Gives the secrets that this process holds; set when it begins to serve.
    held: Callable[[], Iterable[str]] = staticmethod(lambda: ())

    def format(self, record: logging.LogRecord) -> str:
        return scrub(super().format(record), type(self).held())


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return the text with the given secrets, and all that looks like one, masked."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    return LOOKS_SECRET.sub(MASK, text)
