"""Filters of the usage list in the admin. Their choices come from the sums, never from the records."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import ModelAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter, RangeDateFilter

from usage.choices import names_seen
from usage.cleaning import clean_text
from usage.ids import first_id_at
from usage.models import UsageRecord
from usage.pages.notes import WORDS, in_words
from usage.periods import CLOCK_SLACK, day_start, parse_day
from usage.states import State
from usage.visibility import scope_of

CHOICES_OF = timedelta(days=90)
#: Before all records: the usage API wants a first day, the list needs none.
FIRST_DAY = "2000-01-01"
#: No column that is filtered holds more.
VALUE_MAX = 200


def started_between(
    records: QuerySet[UsageRecord], start: datetime | None, end: datetime | None
) -> QuerySet[UsageRecord]:
    """Keep the records of a half-open time. The bounds on the id let Postgres skip whole partitions."""
    if start is not None:
        records = records.filter(started_at__gte=start, id__gte=first_id_at(start - CLOCK_SLACK))
    if end is not None:
        records = records.filter(started_at__lt=end, id__lt=first_id_at(end + CLOCK_SLACK))
    return records


class DayFilter(RangeDateFilter):  # type: ignore[misc]  # unfold is untyped
    def queryset(self, request: HttpRequest, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        first, last = (
            parse_day(self.used_parameters.get(f"{self.parameter_name}_{end}") or "") for end in ("from", "to")
        )
        end = day_start(last) + timedelta(days=1) if last else None
        return started_between(queryset, day_start(first) if first else None, end)


class _ChoiceFilter(DropdownFilter):  # type: ignore[misc]  # unfold is untyped
    field: str

    def queryset(self, request: HttpRequest, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        if not self.value():
            return queryset
        try:
            return queryset.filter(**{self.field: clean_text(self.value(), VALUE_MAX)})
        except ValueError:  # no id
            return queryset.none()


class _SeenFilter(_ChoiceFilter):
    """Offers what the last months' sums hold, by name; what all of these filters offer is read at once."""

    offered = ("user", "upstream", "model", "credential")

    def has_output(self) -> bool:
        return True  # also without a choice a value in the address holds

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Model]") -> list[tuple[str, str]]:
        end = day_start(timezone.now().date() + timedelta(days=1))
        names = names_seen(self.offered, scope_of(request.user), end - CHOICES_OF, end)
        return sorted(names[self.parameter_name].items(), key=lambda pair: pair[1])


class UserFilter(_SeenFilter):
    title, parameter_name, field = "user", "user", "user_id"


class UpstreamFilter(_SeenFilter):
    title, parameter_name, field = "upstream", "upstream", "upstream_id"


class ModelFilter(_SeenFilter):
    title, parameter_name, field = "upstream model", "model", "upstream_model"


class CredentialFilter(_SeenFilter):
    title, parameter_name, field = "credential", "credential", "credential_id"


class StateFilter(_ChoiceFilter):
    title, parameter_name, field = "state", "state", "state"

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Model]") -> Iterable[tuple[str, Any]]:
        return State.choices


class NoteFilter(DropdownFilter):  # type: ignore[misc]  # unfold is untyped
    """Keeps what something was noted on. It goes after all other filters, since it asks anew under them."""

    title, parameter_name = "note", "note"

    def lookups(self, request: HttpRequest, model_admin: "ModelAdmin[Model]") -> list[tuple[str, str]]:
        chosen = self.used_parameters.get(self.parameter_name)
        notes = [*WORDS, *([chosen] if chosen and chosen not in WORDS else [])]
        return [(note, in_words(note)) for note in notes]

    def queryset(self, request: HttpRequest, queryset: QuerySet[UsageRecord]) -> QuerySet[UsageRecord]:
        if not self.value():
            return queryset
        # Which ones is answered by the index of records with notes alone; asked for themselves, all of these were read.
        noted = queryset.filter(notes__contains=[clean_text(self.value(), VALUE_MAX)]).exclude(notes=[])
        return queryset.filter(pk__in=noted.order_by().values("pk"))


def export_links(words: Mapping[str, str]) -> list[tuple[str, str]]:
    """Lead to files of what the list shows under these filters; to none for a search or a note: files know neither."""
    if words.get("q") or words.get("note"):
        return []
    own = (UserFilter, UpstreamFilter, ModelFilter, CredentialFilter, StateFilter)
    kept = {one.parameter_name: words[one.parameter_name] for one in own if words.get(one.parameter_name)}
    kept["from"] = words.get("started_at_from") or FIRST_DAY
    kept["to"] = words.get("started_at_to") or str(timezone.now().date())
    records = reverse("usage:records")
    return [(kind, f"{records}?{urlencode({**kept, 'format': kind})}") for kind in ("csv", "jsonl")]
