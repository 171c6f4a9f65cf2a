"""How well each upstream model answers, compared with the time before; the URL is the whole state."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from usage.answers import SPAN_MAX, answers, time_before
from usage.pages.access import for_staff, shown
from usage.pages.notes import in_words, is_adapted, is_mended
from usage.pages.reports import choices_of, label_of
from usage.periods import day_start
from usage.questions import asked_of_answers
from usage.reports import Question
from usage.states import State
from usage.tallies import SHARES, Fared
from usage.templatetags.figures import figure
from usage.visibility import scope_of

ROWS_SHOWN = 100
OFFERED = ("upstream", "model")
PERIODS = ((7, "7 days"), (SPAN_MAX.days, f"{SPAN_MAX.days} days"))
#: Filters that the list of requests has too.
LISTED = ("user", "upstream", "model", "credential", "state")
#: What stands in the table, in order; the others may rather be small.
COLUMNS = (
    "answered",
    "truncated",
    "timeout",
    "errors",
    "ttft_p50_ms",
    "ttft_p95_ms",
    "estimated",
    "mended",
    "repaired",
)
GOOD = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    text: str
    #: Against the time before; empty where it would say nothing.
    change: str = ""
    #: good or bad
    mood: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    fared: Fared
    #: To nothing but this model; empty where that can't be asked for.
    link: str
    cells: list[Cell]
    errors: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """So many records have this in common, and lie behind the link."""

    text: str
    count: int
    link: str


@for_staff
def show(request: HttpRequest) -> HttpResponse:
    words = {name: str(value) for name, value in request.GET.items() if value}
    scope = scope_of(request.user)
    try:
        question, error = asked_of_answers(words, scope), ""
        found = answers(question, limit=ROWS_SHOWN + 1)
    except ValueError as refusal:
        words, error = {}, str(refusal)
        question = asked_of_answers(words, scope)
        found = answers(question, limit=ROWS_SHOWN + 1)
    days = _whole_days(question)
    choices = list(choices_of(days, scope, OFFERED))
    state = {**_days_of(words, days), **question.keep}
    shown_now = found[:ROWS_SHOWN]
    return shown(
        request,
        "usage/answers.html",
        "Answers",
        status=400 if error else 200,
        error=error,
        question=question,
        before=time_before(question),
        is_by_hour=not words.get("from") and not words.get("to"),
        first=state.get("from", ""),
        last=state.get("to", ""),
        periods=_periods(question, state),
        choices=choices,
        hidden=[(name, value) for name, value in question.keep.items() if name not in OFFERED],
        kept=[(name, label_of(name, value, choices), _link(state, name)) for name, value in question.keep.items()],
        exports=[(kind, _export(state, kind)) for kind in ("csv", "json")],
        lines=[_line(fared, state) for fared in shown_now],
        is_cut=len(found) > ROWS_SHOWN,
        one=_outcomes(shown_now[0], days) if set(OFFERED) <= question.keep.keys() and len(shown_now) == 1 else None,
        notes=_notes(shown_now, days),
    )


def _whole_days(question: Question) -> Question:
    """Widen a question to whole days: lists and choices know no others."""
    last = (question.end - timedelta(microseconds=1)).date()
    return replace(question, start=day_start(question.start.date()), end=day_start(last) + timedelta(days=1))


def _days_of(words: Mapping[str, str], days: Question) -> dict[str, str]:
    """Write the time as the words of a URL; none for the last 24 hours, so that they stay the last."""
    if not words.get("from") and not words.get("to"):
        return {}
    return {"from": str(days.start.date()), "to": str((days.end - timedelta(days=1)).date())}


def _periods(question: Question, state: Mapping[str, str]) -> Iterable[tuple[str, str, bool]]:
    yield "24 hours", f"?{urlencode(question.keep)}", "from" not in state
    today = timezone.now().date()
    for count, label in PERIODS:
        days = {"from": str(today - timedelta(days=count - 1)), "to": str(today)}
        yield label, f"?{urlencode({**state, **days})}", days.items() <= state.items()


def _link(state: Mapping[str, str], left_out: str) -> str:
    return f"?{urlencode({word: value for word, value in state.items() if word != left_out})}"


def _export(state: Mapping[str, str], kind: str) -> str:
    return f"{reverse('usage:answers')}?{urlencode({**state, **({'format': 'csv'} if kind == 'csv' else {})})}"


def _line(fared: Fared, state: Mapping[str, str]) -> Line:
    own = {"upstream": str(fared.upstream_id), "model": fared.model}
    types = fared.now.error_types.most_common()
    return Line(
        fared=fared,
        link=f"?{urlencode({**state, **own})}" if fared.upstream_id is not None and fared.model else "",
        cells=[_cell(fared, name) for name in COLUMNS],
        errors=", ".join(f"{name.replace('_', ' ') or 'other'} {count:,}" for name, count in types),
    )


def _cell(fared: Fared, name: str) -> Cell:
    if name in SHARES:
        text, change = figure(fared.now.share(name), "share"), fared.change(name)
        told = "" if change is None else f"{100 * change:+.1f}"
    else:
        text, change = figure(fared.now.time_ms(name), "ms"), fared.time_change(name)
        told = "" if change is None else f"{100 * change:+.0f} %"
    if change is None or told in ("+0.0", "-0.0"):
        return Cell(text=text)
    return Cell(text=text, change=told, mood="good" if (change > 0) == (name == GOOD) else "bad")


def _outcomes(fared: Fared, days: Question) -> dict[str, list[Counted]]:
    """Tell of one model how its attempts ended, and with which errors."""
    states = [
        Counted(text=State(state).label, count=count, link=_requests(days, state=state))
        for state, count in fared.now.states.most_common()
    ]
    errors = [
        Counted(text=name.replace("_", " ") or "other", count=count, link=_by_day(days, error=name))
        for name, count in fared.now.error_types.most_common()
    ]
    return {"states": states, "errors": errors}


def _notes(found: Iterable[Fared], days: Question) -> list[tuple[str, list[Counted]]]:
    """Group what was noted, the most frequent first."""
    counts: Counter[str] = Counter()
    for fared in found:
        counts.update(fared.notes)
    groups: dict[str, list[Counted]] = {"Mended in answers": [], "Changed in requests": [], "Other": []}
    for note, count in counts.most_common():
        title = "Mended in answers" if is_mended(note) else "Changed in requests" if is_adapted(note) else "Other"
        groups[title].append(Counted(text=in_words(note), count=count, link=_requests(days, note=note)))
    return [(title, counted) for title, counted in groups.items() if counted or title != "Other"]


def _requests(days: Question, **more: str) -> str:
    """Lead to the list of requests under the same filters, as far as it has them."""
    words = {name: value for name, value in days.keep.items() if name in LISTED} | more
    words |= {
        "started_at_from": str(days.start.date()),
        "started_at_to": str((days.end - timedelta(days=1)).date()),
    }
    return f"{reverse('admin:usage_usagerecord_changelist')}?{urlencode(words)}"


def _by_day(days: Question, **more: str) -> str:
    words = {"from": str(days.start.date()), "to": str((days.end - timedelta(days=1)).date())}
    words |= {"by": "day", "then": "credential", "show": "errors", **days.keep, **more}
    return f"{reverse('usage_pages:report')}?{urlencode({word: value for word, value in words.items() if value})}"
