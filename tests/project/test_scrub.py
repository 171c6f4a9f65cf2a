import logging
import sys

import pytest

from bridgeproject.scrub import MASK, ScrubbingFormatter, scrub

TOKEN = "brg_C49GXven1ApBGMZ64ifeXoqZPzfVOWDwB14bVuq"


@pytest.mark.parametrize(
    "text",
    [
        f"x-api-key {TOKEN}",
        "Authorization: Bearer abcdefghijkl",
        "Illegal header value b'Bearer sk-1234567890abcdef'",
        "key sk-proj-1234567890abcdef refused",
        "< cookie: sessionid=abcdefghij1234567890; csrftoken=1234567890abcdefghij",
        "key nvapi-1234567890abcdef refused",
    ],
)
def test_what_looks_like_a_secret_is_masked(text):
    scrubbed = scrub(text, ())

    assert MASK in scrubbed
    assert "1234567890" not in scrubbed
    assert "abcdefghij" not in scrubbed
    assert TOKEN[8:] not in scrubbed


def test_a_held_secret_is_masked_whatever_it_looks_like():
    assert scrub("it is hunter2.", ["hunter2"]) == f"it is {MASK}."


def test_ordinary_words_stay():
    text = "request req_T3I8WnuxOlgTUfpsla9DXySY: a bearer of news asked for sk-learn"

    assert scrub(text, ()) == text


def test_tracebacks_and_arguments_are_scrubbed_too():
    try:
        raise ValueError(f"bad value {TOKEN}")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed with %s", (TOKEN,), sys.exc_info())

    line = ScrubbingFormatter("%(message)s").format(record)

    assert "ValueError" in line
    assert TOKEN[8:] not in line
