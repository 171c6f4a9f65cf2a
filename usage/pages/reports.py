"""Reports: a period, up to two groups, filters; the URL is the whole state, so that it can be sent to a colleague."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from usage.choices import names_seen
from usage.pages.access import for_staff, shown
from usage.pages.charts import Chart, pivot
from usage.pages.saved import saved_for, teams_to_share_with
from usage.questions import asked
from usage.reports import DIMENSIONS, ROWS_MAX, SPANS, Question, report
from usage.visibility import Scope, scope_of

ROWS_SHOWN = 200
CHOICES_MAX = 300
#: Filters that offer what there is; the others come by drilling.
OFFERED = ("team", "user", "model", "credential", "state")
#: Where a click on a group leads: the next group to look at.
NEXT = ("team", "user", "model", "credential", "error", "day")
PERIODS = ((1, "today"), (7, "7 days"), (30, "30 days"), (90, "90 days"))
STEPS_S = {"hour": 3_600, "day": 86_400, "week": 7 * 86_400, "month": 30 * 86_400}
SHOWN = {"tokens": "Tokens", "cost_nano": "Cost", "requests": "Requests", "errors": "Errors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    text: str
    #: To the report about nothing but this; empty when there is none.
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    name: str
    label: str
    options: list[tuple[str, str]]
    chosen: str


@for_staff
def show(request: HttpRequest) -> HttpResponse:
    words = {name: str(value) for name, value in request.GET.items() if value}
    scope = scope_of(request.user)
    groups = tuple(dict.fromkeys(words[name] for name in ("by", "then") if words.get(name))) or ("day",)
    try:
        question, error = asked(words, scope, groups=groups), ""
    except ValueError as refusal:
        words, groups, error = {}, ("day",), str(refusal)
        question = asked(words, scope, groups=groups)
    rows = report(question, timed=ROWS_SHOWN, limit=ROWS_MAX)
    is_cut = len(rows) == ROWS_MAX
    whole = report(replace(question, groups=()))
    choices = list(choices_of(question, scope))
    state = _state(question, words)
    return shown(
        request,
        "usage/report.html",
        "Reports",
        status=400 if error else 200,
        error=error,
        groups=question.groups,
        lines=[(_cells(row, question, state), row | {"tokens": _tokens(row)}) for row in rows[:ROWS_SHOWN]],
        whole=whole[0] | {"tokens": _tokens(whole[0])} if whole else None,
        more=max(0, len(rows) - ROWS_SHOWN),
        is_cut=is_cut,
        # One that misses some would be wrong.
        chart=None if is_cut else _chart(rows, question, words.get("show", "tokens")),
        metrics=[(name, label, _link(state | {"show": name}), name == words.get("show", "tokens")) for name, label in SHOWN.items()],
        first=state["from"],
        last=state["to"],
        group_names=[*SPANS, *DIMENSIONS],
        by=question.groups[0],
        then=question.groups[1] if len(question.groups) > 1 else "",
        choices=choices,
        hidden=[(name, value) for name, value in question.keep.items() if name not in OFFERED],
        kept=[(name, label_of(name, value, choices), _link(_without(state, name))) for name, value in question.keep.items()],
        periods=[_period(days, label, state) for days, label in PERIODS],
        exports=[(kind, _export(state, question, kind)) for kind in ("csv", "json")],
        records=_records_link(state),
        saved=saved_for(request.user),
        teams=teams_to_share_with(request.user),
        query=urlencode(state),
    )  # fmt: skip


def _tokens(row: Mapping[str, Any]) -> int:
    return sum(row[kind] for kind in ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"))


def _state(question: Question, words: Mapping[str, str]) -> dict[str, str]:
    """Write the question as the words of a URL."""
    state = {"from": str(question.start.date()), "to": str((question.end - timedelta(days=1)).date())}
    state |= dict(zip(("by", "then"), question.groups, strict=False))
    state |= question.keep
    return state | ({"show": words["show"]} if words.get("show") in SHOWN else {})


def _link(state: Mapping[str, str]) -> str:
    return f"?{urlencode(state)}"


def _without(state: Mapping[str, str], name: str) -> dict[str, str]:
    return {word: value for word, value in state.items() if word != name}


def _cells(row: Mapping[str, Any], question: Question, state: Mapping[str, str]) -> list[Cell]:
    return [_cell(row, group, state) for group in question.groups]


def _cell(row: Mapping[str, Any], group: str, state: Mapping[str, str]) -> Cell:
    """Name a group, with the way to the report about nothing else."""
    if group in SPANS:
        return _span_cell(row[group], group, state)
    value = row.get(f"{group}_id", row[group])
    text = str(row[group]) or "(none)"
    if value in (None, ""):
        return Cell(text=text, link="")
    kept = {**state, group: str(value)}
    left = [name for name in NEXT if name not in kept or name == state.get("by") != group]
    others = [state[word] for word in ("by", "then") if state.get(word) not in (None, group)]
    by = others or left[:1]
    kept = _without(_without(kept, "by"), "then")
    return Cell(text=text, link=_link({**kept, **dict(zip(("by", "then"), by, strict=False))}))


def _span_cell(moment: datetime, span: str, state: Mapping[str, str]) -> Cell:
    first = moment.date()
    match span:
        case "hour":
            return Cell(text=f"{moment:%Y-%m-%d %H:%M}", link=_link({**state, "from": str(first), "to": str(first)}))
        case "day":
            text, last, by = f"{first:%Y-%m-%d, %a}", first, "hour"
        case "week":
            text, last, by = f"week of {first}", first + timedelta(days=6), "day"
        case _:
            text, last, by = f"{first:%Y-%m}", (first + timedelta(days=32)).replace(day=1) - timedelta(days=1), "day"
    changed = {word: by if value == span else value for word, value in state.items()}
    return Cell(text=text, link=_link({**changed, "from": str(first), "to": str(last)}))


def _chart(rows: Iterable[Mapping[str, Any]], question: Question, metric: str) -> Chart | None:
    """Draw the first group if it is a time, with the second one as series."""
    span, *rest = question.groups
    metric = metric if metric in SHOWN else "tokens"
    if span not in SPANS:
        return None
    moments = sorted({row[span] for row in rows})
    if rest and rest[0] in SPANS:
        return None
    named = [
        {
            "moment": row[span],
            "series": (str(row[rest[0]]) or "(none)") if rest else SHOWN[metric],
            "value": _tokens(row) if metric == "tokens" else row[metric],
        }
        for row in rows
    ]
    series = pivot(named, moment="moment", name="series", value="value", moments=moments)
    unit = "usd" if metric == "cost_nano" else "count"
    return Chart(
        name="report",
        title=SHOWN[metric],
        kind="bars",
        unit=unit,
        moments=moments,
        series=series,
        step_s=STEPS_S[span],
    )


def choices_of(question: Question, scope: Scope, offered: Sequence[str] = OFFERED) -> Iterable[Choice]:
    """Offer what the period holds, whatever else is filtered."""
    found = names_seen(offered, scope, question.start, question.end)
    for name in offered:
        chosen = question.keep.get(name, "")
        options = dict(islice(found[name].items(), CHOICES_MAX))
        options |= {} if chosen in options or not chosen else {chosen: chosen}
        yield Choice(name=name, label=name, options=sorted(options.items(), key=lambda pair: pair[1]), chosen=chosen)


def label_of(name: str, value: str, choices: Iterable[Choice]) -> str:
    known = {text: label for choice in choices if choice.name == name for text, label in choice.options}
    return f"{name} {known.get(value, value)}"


def _period(days: int, label: str, state: Mapping[str, str]) -> tuple[str, str, bool]:
    today = timezone.now().date()
    first, last = str(today - timedelta(days=days - 1)), str(today)
    changed = {**state, "from": first, "to": last}
    return label, _link(changed), (state["from"], state["to"]) == (first, last)


def _export(state: Mapping[str, str], question: Question, kind: str) -> str:
    words = _without(_without(state, "then"), "show") | {"by": ",".join(question.groups)}
    return f"{reverse('usage:report')}?{urlencode(words | ({'format': 'csv'} if kind == 'csv' else {}))}"


def _records_link(state: Mapping[str, str]) -> str:
    """Lead to the list of records under the same filters, as far as it has them."""
    words = {name: state[name] for name in ("user", "upstream", "model", "credential", "state") if name in state}
    words |= {"started_at_from": state["from"], "started_at_to": state["to"]}
    return f"{reverse('admin:usage_usagerecord_changelist')}?{urlencode(words)}"
