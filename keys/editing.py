"""Two people who edit one row at the same time: who saves second is told, instead of undoing the first one's work unseen.

A form carries a mark of each value that it was shown with. Rows beside the form (inlines) are not watched.
"""

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import orjson
from django import forms
from django.db.models import Model
from django.http import HttpRequest

SEEN = "seen_values"
#: A hash leaves no mark on a page, and logins change no row that anybody edits.
UNMARKED = frozenset({"password", "last_login"})


class _Marked(forms.ModelForm):  # type: ignore[type-arg]  # generic in the stubs only
    """Goes before a form of one row."""

    @property
    def seen_values(self) -> str:
        """The marks of the values as the database has them now."""
        return orjson.dumps(self._marks()).decode()

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if others := self._changed_since(self.data.get(SEEN, "")):
            self.add_error(
                None,
                f"Meanwhile somebody else changed: {', '.join(others)}. Below stands what you typed; saving once more puts"
                " it in place of theirs, and leaving the page leaves theirs.",
            )
        return cleaned

    def _marks(self) -> dict[str, str]:
        return {name: _mark(self.initial.get(name)) for name in self.fields if name not in UNMARKED}

    def _changed_since(self, seen: str) -> list[str]:
        """Name the fields that have another value than when the form was shown; none if it never was."""
        try:
            known = orjson.loads(seen)
        except orjson.JSONDecodeError:
            return []
        marks = self._marks() if isinstance(known, dict) else {}
        changed = [name for name, mark in marks.items() if known.get(name, mark) != mark]
        return [str(self.fields[name].label or name).lower() for name in changed]


class WarnsOfOthers:
    """Goes before `ModelAdmin`."""

    change_form_before_template = "keys/_seen_values.html"

    def get_form(self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)  # type: ignore[misc]  # of `ModelAdmin`
        return form if obj is None else type(form.__name__, (_Marked, form), {})


def _mark(value: Any) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | dict):
        value = sorted(str(each.pk if isinstance(each, Model) else each) for each in value)
    return f"{crc32(repr(value).encode('utf-8', 'replace')):x}"
