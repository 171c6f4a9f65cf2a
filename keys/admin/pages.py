"""What the app's own admin pages share."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import Model
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin
from unfold.decorators import display

from keys.models import State, StateFields
from keys.standing import CAUSES, state_now

COLOURS = {
    "ready": "success",
    "cooling": "warning",
    "on trial": "warning",
    "draining": "info",
    "ejected": "danger",
    "quarantined": "danger",
    "undecryptable": "danger",
    "no secret": "danger",
}


def numbers(name: str, words: str, write: Callable[[Any], str] = "{:,}".format) -> Callable[[Model], str]:
    """Make a column of a field's numbers, aligned at their last digits and written by `write`."""

    @display(description=words, ordering=name, formatting="price")  # type: ignore[untyped-decorator]  # unfold is untyped
    def column(row: Model) -> str:
        value = getattr(row, name)
        return "-" if value is None else write(value)

    column.__name__ = name
    return column  # type: ignore[no-any-return]


def render_states(rows: Iterable[StateFields]) -> str:
    """Render what the pool learned of something, an entry for each model."""
    items = [
        {
            "row": row,
            "state": state_now(row),
            "cause": CAUSES.get(row.cause, ""),
            "is_ready": state_now(row) == State.READY,
        }
        for row in sorted(rows, key=lambda row: row.model_name)
    ]
    return render_to_string("keys/_states.html", {"rows": items})


def object_page(
    admin: ModelAdmin, request: HttpRequest, row: Model | None, template: str, title: str, **context: Any
) -> TemplateResponse:
    """Render a page about one row, or about none, within the admin's frame."""
    frame = {**admin.admin_site.each_context(request), "title": title, "opts": admin.opts, "original": row}
    return TemplateResponse(request, template, frame | context)
