"""Questions to the reports as the words of a URL: pages and the usage API read the same ones."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from usage.periods import day_start, parse_day
from usage.reports import DIMENSIONS, Question
from usage.visibility import Scope

DAYS_DEFAULT = 30


def asked(
    words: Mapping[str, str], scope: Scope, groups: tuple[str, ...] | None = None, days: int = DAYS_DEFAULT
) -> Question:
    """Read a question from a query string: `from` and `to` are days, both within.

    Args:
        words: The query string's.
        scope: What the asker may see.
        groups: Instead of those in `by`.
        days: How many there are, today the last, where the words name none.

    Raises:
        ValueError: It makes no sense; the text says why.
    """
    today = timezone.now().date()
    first = parse_day(words.get("from") or str(today - timedelta(days=days - 1)))
    last = parse_day(words.get("to") or str(today))
    if first is None or last is None:
        msg = "from and to are days: YYYY-MM-DD"
        raise ValueError(msg)
    by = tuple(word for word in words.get("by", "day").split(",") if word) if groups is None else groups
    try:
        end = day_start(last) + timedelta(days=1)
    except OverflowError as exc:
        raise ValueError(str(exc)) from exc
    keep = {name: words[name].replace("\x00", "") for name in DIMENSIONS if words.get(name)}
    return Question(start=day_start(first), end=end, groups=by, keep=keep, scope=scope)


def asked_of_answers(words: Mapping[str, str], scope: Scope) -> Question:
    """Read a question about answers: without any day it is about the last 24 hours, this one among them.

    Raises:
        ValueError: It makes no sense; the text says why.
    """
    question = asked(words, scope, groups=())
    if words.get("from") or words.get("to"):
        return question
    end = timezone.now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return replace(question, start=end - timedelta(days=1), end=end)
